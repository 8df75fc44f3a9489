/* alloc_fail.h: makes the n-th allocation fail. For programs linked with
 * -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=reallocarray; counts the calls of the wrapped program's own
 * objects on the one thread that tests run on. */
#ifndef TEST_ALLOC_FAIL_H
#define TEST_ALLOC_FAIL_H

#include <stdbool.h>

void alloc_fail_at(long n); /* the n-th allocation from now on fails, 0 the next one; negative: none does */
bool alloc_failed(void);    /* it happened */

#endif
