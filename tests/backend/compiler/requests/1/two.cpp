extern "C" int tiny_two() { return 2; }
