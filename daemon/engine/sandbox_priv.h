/* sandbox_priv.h: what halod-engine gives up before it parses its first byte.
 *
 * A model file is input from somebody else, and the engine parses it. A fault in a parser must not become more than a
 * dead engine. The policy with its reasons is in docs/SANDBOX.md.
 */
#ifndef HALO_ENGINE_SANDBOX_PRIV_H
#define HALO_ENGINE_SANDBOX_PRIV_H

#include <stdbool.h>
#include <stddef.h>

struct halo_sandbox {
    const char *const *model_dirs; /* readable */
    size_t n_model_dirs;
    const char *state_dir; /* its folder `prefixes` is writable; NULL: nothing is saved */
    const char *hip_lib;   /* its folder is readable; NULL: the system's libraries are searched */
    bool gpu;         /* a GPU's runtime may be opened: its device nodes, shared memory, a folder for temporary files */
    bool models_only; /* read nothing but models and the system's libraries; false: read what the user may read */
};

/* For the main thread, before there is another one: Landlock holds for the calling thread and those it starts. Logs a
 * warning about whatever this kernel cannot do, and returns. */
void halo_sandbox_enter(const struct halo_sandbox *sandbox);

/* sandbox_calls.c: refuses the system calls that the engine has no use for, in all threads. 0 or negative errno. */
int halo_sandbox_filter_calls(void);

#endif
