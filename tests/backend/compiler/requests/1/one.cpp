#include "one.h"
extern "C" int tiny_one() { return ONE; }
