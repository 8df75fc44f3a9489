/* sandbox.h: what a process that parses other people's bytes gives up before the first of them.
 *
 * halod-engine parses model files, a child of hip-worker the requests of its client. A fault in a parser must not
 * become more than a dead process. The policy with its reasons is in docs/SANDBOX.md.
 */
#ifndef HALO_SANDBOX_SANDBOX_H
#define HALO_SANDBOX_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>

struct halo_sandbox {
    const char *program;           /* of the messages and of the folder for temporary files: "halod-engine" */
    const char *const *model_dirs; /* readable */
    size_t n_model_dirs;
    const char *state_dir; /* its folders `prefixes` and `profiles` are writable; NULL: nothing is saved */
    const char *work_dir;  /* writable; NULL: none */
    const char *hip_lib;   /* its folder is readable; NULL: the system's libraries are searched */
    bool gpu;         /* a GPU's runtime may be opened: its device nodes, shared memory, a folder for temporary files */
    bool models_only; /* read nothing but models and the system's libraries; false: read what the user may read */
};

/* For the main thread, before there is another one: Landlock holds for the calling thread and those it starts. Logs a
 * warning about whatever this kernel cannot do, and returns. */
void halo_sandbox_enter(const struct halo_sandbox *sandbox);

#endif
