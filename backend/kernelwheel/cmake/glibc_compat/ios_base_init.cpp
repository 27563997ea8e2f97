// Called since gcc 13 in place of the object in each file that includes <iostream>.
#include <ios>
#ifdef __GLIBCXX__
static std::ios_base::Init initialized;
namespace std { [[gnu::weak]] void ios_base_library_init() {} }
#endif
