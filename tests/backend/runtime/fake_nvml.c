// libnvidia-ml.so.1 and libcuda.so.1 of a machine that the environment describes:
//   FAKE_GPUS=GPU-aaaa:9.0,GPU-bbbb:8.0   the GPUs, in the order of their PCI bus ids
//   FAKE_MIGS=MIG-cccc:GPU-aaaa           MIG devices, and the GPUs that they are parts of
//   FAKE_FAILURE=nvmlInit_v2:9            a function that fails, and the status that it returns
//   FAKE_DRIVER=12040                     the CUDA version that the driver supports, 12.4; default: newer than any torch
//   FAKE_LOG=FILE                         where each call leaves its name
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { char uuid[96], parent[96]; int major, minor; } Device;
static Device gpus[8], migs[8];
static unsigned gpu_count, mig_count;

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

static Device *gpu_named(const char *uuid) {
    for (unsigned i = 0; i < gpu_count; ++i)
        if (!strcmp(gpus[i].uuid, uuid)) return &gpus[i];
    return NULL;
}

int nvmlInit_v2(void) {
    char *at = getenv("FAKE_GPUS");
    for (gpu_count = 0; at && *at; ++gpu_count) {
        int read = 0;
        Device *device = &gpus[gpu_count];
        if (sscanf(at, "%95[^:]:%d.%d%n", device->uuid, &device->major, &device->minor, &read) != 3) abort();
        at += read + (at[read] == ',');
    }
    at = getenv("FAKE_MIGS");
    for (mig_count = 0; at && *at; ++mig_count) {
        int read = 0;
        if (sscanf(at, "%95[^:]:%95[^,]%n", migs[mig_count].uuid, migs[mig_count].parent, &read) != 2) abort();
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

int nvmlDeviceGetHandleByUUID(const char *uuid, Device **device) {
    for (unsigned i = 0; i < mig_count; ++i)
        if (!strcmp(migs[i].uuid, uuid)) {
            *device = &migs[i];
            return called("nvmlDeviceGetHandleByUUID");
        }
    return 6;  // NVML_ERROR_NOT_FOUND
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Device *mig, Device **device) {
    *device = gpu_named(mig->parent);
    return called("nvmlDeviceGetDeviceHandleFromMigDeviceHandle");
}

int nvmlDeviceGetUUID(Device *device, char *uuid, unsigned length) {
    snprintf(uuid, length, "%s", device->uuid);
    return called("nvmlDeviceGetUUID");
}

int nvmlDeviceGetCudaComputeCapability(Device *device, int *major, int *minor) {
    if (!device->major) return 2;  // NVML_ERROR_INVALID_ARGUMENT, as for a MIG device
    *major = device->major;
    *minor = device->minor;
    return called("nvmlDeviceGetCudaComputeCapability");
}

int cuDriverGetVersion(int *version) {
    const char *driver = getenv("FAKE_DRIVER");
    *version = driver ? atoi(driver) : 99000;  // not older than any torch
    return called("cuDriverGetVersion");
}
