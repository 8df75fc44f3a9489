/* bind.c: a program linked with the library, as hipcc links it, that needs each function in its node. The loader binds
 * all of them before main when LD_BIND_NOW is set, and ends the program when one is missing. */
#include <stdio.h>
#include <stdlib.h>

#define HIP_REFUSED(node, symbol) extern int symbol(void);
#define HIP_EXPORT(node, how, symbol, result, arguments) extern int symbol(void);
#include "exports.def"

static int (*const functions[])(void) = {
#define HIP_REFUSED(node, symbol) symbol,
#define HIP_EXPORT(node, how, symbol, result, arguments) symbol,
#include "exports.def"
};

int main(void)
{
    size_t n = 0;
    for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++)
        n += functions[i] != NULL;
    if (!getenv("LD_BIND_NOW") || n < 500 || hipGetLastError() != 0) {
        fprintf(stderr, "bind: %zu functions\n", n);
        return 1;
    }
    return 0;
}
