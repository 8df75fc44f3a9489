/* spare.c: descriptors kept back for the next engine, which needs a few when it starts.
 *
 * Clients may take every descriptor there is; those of an engine that died would go to whoever waits in the backlog,
 * and no engine could ever be started again. Loop thread.
 */
#include <fcntl.h>
#include <unistd.h>

#include "engine_priv.h"

void halo_spare_fill(struct halo_engine *engine)
{
    while (engine->n_spare < HALO_ENGINE_SPARE_FDS) {
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            return; /* tried again at the next look */
        engine->spare_fds[engine->n_spare++] = fd;
    }
}

void halo_spare_drop(struct halo_engine *engine)
{
    while (engine->n_spare > 0)
        close(engine->spare_fds[--engine->n_spare]);
}
