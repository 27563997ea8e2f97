// std::condition_variable::wait, of which gcc 12 has a new version. The first members of the condition and of the lock
// are what POSIX waits for; <condition_variable> would take longer to compile than most of these files.
#include <pthread.h>
extern "C" [[gnu::weak]] void wait_for(pthread_cond_t*, pthread_mutex_t**)
    __asm__("_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE");
void wait_for(pthread_cond_t* condition, pthread_mutex_t** lock) { pthread_cond_wait(condition, *lock); }
