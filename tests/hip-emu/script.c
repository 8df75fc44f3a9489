/* script.c: faults at the n-th call of a function.
 *
 * $HALO_HIP_EMU_SCRIPT, or the file it names after an '@' (read anew at each call, so that one running process can meet
 * a fault and its successor not): entries "function:n:action", separated by spaces, commas or newlines; n counts from
 * 1, '*' is every call. Actions:
 *   delay=MS: the call takes so long
 *   hang:     the call never returns
 *   stall:    this and all later work of the stream never ends: a lost completion
 *   error=N:  the call fails with N
 *   oom:      the call fails for want of memory
 *   lost:     this and every later call fails: the device is gone
 *   drop:     the call succeeds and does nothing: of work that is queued, a wrong result
 *   flip:     of a copy: one bit of what it brings is wrong, by which a float changes by an eighth or so
 *   flip=N:   the same of copies of N bytes alone
 *   crash:    the process is aborted
 * Any thread. A script that cannot be read aborts too: a test that injects nothing must not pass.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "emu.h"

#define FUNCTIONS_MAX 64
#define SCRIPT_MAX 4096

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    const char *name;
    unsigned long n;
} counts[FUNCTIONS_MAX];
static atomic_bool stalled, lost;

bool emu_stalled(void)
{
    return atomic_load(&stalled);
}
void emu_lose(void)
{
    atomic_store(&lost, true);
}
int emu_lost(void)
{
    return atomic_load(&lost) ? EMU_LOST : EMU_SUCCESS;
}

static unsigned long count_call(const char *function)
{
    unsigned long n = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < FUNCTIONS_MAX && n == 0; i++) {
        if (!counts[i].name)
            counts[i].name = function;
        if (strcmp(counts[i].name, function) == 0)
            n = ++counts[i].n;
    }
    pthread_mutex_unlock(&lock);
    return n;
}

static void read_script(char *script)
{
    const char *text = getenv("HALO_HIP_EMU_SCRIPT");
    script[0] = '\0';
    if (!text || text[0] != '@') {
        snprintf(script, SCRIPT_MAX, "%s", text ? text : "");
        return;
    }
    FILE *file = fopen(text + 1, "re");
    if (!file)
        return; /* no file: no faults now */
    script[fread(script, 1, SCRIPT_MAX - 1, file)] = '\0';
    fclose(file);
}

/* n_bytes: of a copy. */
static int act(const char *function, const char *action, size_t n_bytes)
{
    long n;
    if (sscanf(action, "flip=%ld", &n) == 1 && (strcmp(function, "hipMemcpyAsync") != 0 || (size_t)n != n_bytes))
        return EMU_SUCCESS;
    fprintf(stderr, "hip-emu: %s: %s\n", function, action);
    if (sscanf(action, "delay=%ld", &n) == 1) {
        nanosleep(&(struct timespec){n / 1000, n % 1000 * 1000000}, NULL);
        return EMU_SUCCESS;
    }
    if (sscanf(action, "error=%ld", &n) == 1)
        return (int)n;
    if (strcmp(action, "hang") == 0)
        for (;;)
            pause();
    if (strcmp(action, "stall") == 0) {
        atomic_store(&stalled, true);
        return EMU_SUCCESS;
    }
    if (strcmp(action, "oom") == 0)
        return EMU_NO_MEMORY;
    if (strcmp(action, "crash") == 0)
        abort();
    if (strcmp(action, "drop") == 0)
        return EMU_DROPPED;
    if (strncmp(action, "flip", 4) == 0 && strcmp(function, "hipMemcpyAsync") == 0)
        return EMU_FLIPPED;
    if (strcmp(action, "lost") == 0) {
        emu_lose();
        return EMU_LOST;
    }
    fprintf(stderr, "hip-emu: no such action: %s\n", action);
    abort();
}

int emu_call(const char *function)
{
    return emu_call_of(function, 0);
}

int emu_call_of(const char *function, size_t n_bytes)
{
    char script[SCRIPT_MAX], *save = NULL;
    unsigned long n = count_call(function);
    read_script(script);
    for (char *entry = strtok_r(script, " ,\n", &save); entry; entry = strtok_r(NULL, " ,\n", &save)) {
        char name[64], when[24], action[64], *end;
        if (sscanf(entry, "%63[^:]:%23[^:]:%63s", name, when, action) != 3) {
            fprintf(stderr, "hip-emu: not an entry of a script: %s\n", entry);
            abort();
        }
        if (strcmp(name, function) != 0)
            continue;
        unsigned long at = strtoul(when, &end, 10);
        int r = strcmp(when, "*") == 0 || (*end == '\0' && at == n) ? act(function, action, n_bytes) : EMU_SUCCESS;
        if (r)
            return r;
    }
    return emu_lost();
}
