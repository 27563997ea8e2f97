// libnvidia-ml.so.1 and libcuda.so.1 of a machine that the environment describes:
//   FAKE_GPUS=GPU-aaaa:9.0,GPU-bbbb:8.0   the GPUs, in the order of their PCI bus ids
//   FAKE_FAILURE=nvmlInit_v2:9            a function that fails, and the status that it returns
//   FAKE_DRIVER=12040                     the CUDA version that the driver supports, 12.4; default: newer than any torch
//   FAKE_LOG=FILE                         where each call leaves its name
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { char uuid[96]; int major, minor; } Device;
static Device gpus[8];
static unsigned gpu_count;

static int called(const char *name) {
    const char *log = getenv("FAKE_LOG"), *failure = getenv("FAKE_FAILURE");
    if (log) {
        FILE *file = fopen(log, "a");
        fprintf(file, "%s\n", name);
        fclose(file);
    }
    size_t length = strlen(name);
    return failure && !strncmp(failure, name, length) && failure[length] == ':' ? atoi(failure + length + 1) : 0;
}

int nvmlInit_v2(void) {
    char *at = getenv("FAKE_GPUS");
    for (gpu_count = 0; at && *at; ++gpu_count) {
        int read = 0;
        Device *device = &gpus[gpu_count];
        if (sscanf(at, "%95[^:]:%d.%d%n", device->uuid, &device->major, &device->minor, &read) != 3) abort();
        at += read + (at[read] == ',');
    }
    return called("nvmlInit_v2");
}

int nvmlShutdown(void) { return called("nvmlShutdown"); }

int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = gpu_count;
    return called("nvmlDeviceGetCount_v2");
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **device) {
    *device = &gpus[index];
    return called("nvmlDeviceGetHandleByIndex_v2");
}

int nvmlDeviceGetCudaComputeCapability(Device *device, int *major, int *minor) {
    *major = device->major;
    *minor = device->minor;
    return called("nvmlDeviceGetCudaComputeCapability");
}

int cuDriverGetVersion(int *version) {
    const char *driver = getenv("FAKE_DRIVER");
    *version = driver ? atoi(driver) : 99000;  // not older than any torch
    return called("cuDriverGetVersion");
}
