// Called by `new T[n]` since gcc 11.
#include <new>
#ifdef __GLIBCXX__
namespace std { [[gnu::weak]] void __throw_bad_array_new_length() { throw bad_array_new_length(); } }
#endif
