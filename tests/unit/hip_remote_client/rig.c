/* rig.c: starts programs, and what most of them do first. */
#include "rig.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <cmocka.h>

#define PATIENCE_S 120

pid_t program_start(const struct worker *w, void (*program)(void))
{
    char worker[128];
    snprintf(worker, sizeof(worker), "unix:%s/s", w->folder);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setenv("HIP_REMOTE_WORKER", worker, 1);
        alarm(PATIENCE_S); /* a call that hangs ends the test */
        program();
        _exit(0);
    }
    return pid;
}

int program_wait(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

int program_status(const struct worker *w, void (*program)(void))
{
    return program_wait(program_start(w, program));
}

void check_program(int status)
{
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("the program ended with wait status %#x", (unsigned)status);
}

void run_on_worker(const char *script, void (*program)(void))
{
    struct worker w;
    if (script)
        setenv("HALO_HIP_EMU_SCRIPT", script, 1);
    worker_start(&w, NULL, NULL);
    unsetenv("HALO_HIP_EMU_SCRIPT");
    int status = program_status(&w, program);
    worker_stop(&w, SIGTERM);
    check_program(status);
}

void *vector_module(void)
{
    static uint8_t image[1 << 20];
    void *module = NULL;
    FILE *file = fopen(getenv("HALO_VECTOR_HOST"), "rb");
    CHECK(file);
    CHECK(fread(image, 1, sizeof(image), file) > 0);
    fclose(file);
    OK(hipModuleLoadData(&module, image));
    memset(image, 0, sizeof(image)); /* the client has what it needs */
    return module;
}

void *vector_kernel(void *module, const char *name)
{
    void *kernel = NULL;
    OK(hipModuleGetFunction(&kernel, module, name));
    return kernel;
}

void *new_stream(void)
{
    void *stream = NULL;
    OK(hipStreamCreateWithFlags(&stream, 1));
    return stream;
}

void *new_event(void)
{
    void *event = NULL;
    OK(hipEventCreateWithFlags(&event, 2));
    return event;
}

void *device_floats(uint32_t n)
{
    void *p = NULL;
    OK(hipMalloc(&p, n * sizeof(float)));
    return p;
}

int launch_vector(void *kernel, void *out, void *in, uint32_t n, float factor, void *stream)
{
    struct vector_scale args = {out, in, n, factor};
    void *params[] = {&args};
    return hipModuleLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 0, stream, params, NULL);
}
