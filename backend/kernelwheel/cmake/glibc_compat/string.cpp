// Parts of std::string that are functions of libstdc++ since gcc 11 and 13.
#include <string>
#ifdef __GLIBCXX__
namespace std {
#if _GLIBCXX_RELEASE >= 11
template void basic_string<char>::reserve();
#endif
#if _GLIBCXX_RELEASE >= 13
template void basic_string<char>::_M_replace_cold(char*, size_type, const char*, size_type, size_type);
#endif
}
#endif
