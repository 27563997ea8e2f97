// Constructors that are functions of libstdc++ since gcc 9; before, they had an argument.
#include <sstream>
#ifdef __GLIBCXX__
namespace std {
template basic_stringbuf<char>::basic_stringbuf();
template basic_istringstream<char>::basic_istringstream();
template basic_ostringstream<char>::basic_ostringstream();
template basic_stringstream<char>::basic_stringstream();
}
#endif
