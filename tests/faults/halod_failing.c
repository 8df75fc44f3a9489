/* halod_failing.c: halod, but allocation number HALO_FAIL_AT of its own code fails. Makes the file $FAKE_DIR/failed at
 * its end if that happened. libuv's allocations are left alone: it aborts by design when some of them fail. */
#include <fail_alloc.h>
#include <stdio.h>
#include <stdlib.h>

#include <serve/program.h>

int main(int argc, char **argv)
{
    const char *at = getenv("HALO_FAIL_AT"), *dir = getenv("FAKE_DIR");
    char path[256];
    if (!at || !dir)
        return 97;
    halo_fail_alloc_arm(strtoull(at, NULL, 10));
    int status = halo_program_run(argc, argv);
    bool failed = halo_fail_alloc_disarm();
    snprintf(path, sizeof(path), "%s/failed", dir);
    FILE *file = failed ? fopen(path, "w") : NULL;
    if (failed && (!file || fclose(file) != 0))
        return 96;
    return status;
}
