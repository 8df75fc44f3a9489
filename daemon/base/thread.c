/* thread.c: see thread.h. Any thread. Fails with the errno of the pthread calls. */
#include <base/thread.h>

#include <stdio.h>

#define NAME_BYTES 16 /* the kernel's, with the NUL */

int halo_thread_start(pthread_t *ret, const char *name, void *(*run)(void *ud), void *ud)
{
    pthread_attr_t attr;
    char shown[NAME_BYTES];
    int r = pthread_attr_init(&attr);
    if (r != 0)
        return -r;
    r = pthread_attr_setstacksize(&attr, HALO_THREAD_STACK_BYTES);
    if (r == 0)
        r = pthread_create(ret, &attr, run, ud);
    pthread_attr_destroy(&attr);
    if (r != 0)
        return -r;
    snprintf(shown, sizeof(shown), "%s", name);
    pthread_setname_np(*ret, shown); /* for people: it runs without one as well */
    return 0;
}
