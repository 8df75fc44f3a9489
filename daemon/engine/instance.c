/* instance.c: states and names of models. The port's thread. */
#include <engine/instance.h>

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include <base/state.h>

#define BIT(state) HALO_STATE_BIT(HALO_INSTANCE_##state)
static const unsigned moves[HALO_N_INSTANCE_STATES] = {
    [HALO_INSTANCE_LOADING] = BIT(READY) | BIT(GONE),
    [HALO_INSTANCE_READY] = BIT(DRAINING),
    [HALO_INSTANCE_DRAINING] = BIT(GONE),
    [HALO_INSTANCE_GONE] = 0,
};

void halo_instance_move(struct halo_instance *instance, enum halo_instance_state to)
{
    assert(instance->state < HALO_N_INSTANCE_STATES && to < HALO_N_INSTANCE_STATES);
    assert(halo_state_may_move(moves, instance->state, to));
    instance->state = to;
}

/* Length without a trailing "-00001-of-00003". */
static size_t without_part(const char *name, size_t n)
{
    static const char shape[] = "-ddddd-of-ddddd";
    size_t n_shape = sizeof(shape) - 1;
    if (n <= n_shape)
        return n;
    for (size_t i = 0; i < n_shape; i++) {
        char c = name[n - n_shape + i];
        if (shape[i] == 'd' ? !isdigit((unsigned char)c) : c != shape[i])
            return n;
    }
    return n - n_shape;
}

void halo_instance_name_of(const char *path, char ret_name[HALO_MODEL_NAME_BYTES])
{
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    size_t n = strlen(base);
    if (n > 5 && strcmp(base + n - 5, ".gguf") == 0)
        n -= 5;
    n = without_part(base, n);
    if (n >= HALO_MODEL_NAME_BYTES)
        n = HALO_MODEL_NAME_BYTES - 1;
    memcpy(ret_name, base, n);
    ret_name[n] = '\0';
}

const char *halo_size_text(uint64_t bytes, char buffer[HALO_SIZE_TEXT])
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    unsigned unit = 0;
    while (value >= 1024 && unit < 4) {
        value /= 1024;
        unit++;
    }
    snprintf(buffer, HALO_SIZE_TEXT, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return buffer;
}
