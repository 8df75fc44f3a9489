/* gguf_kind.c: the types of values: their names and sizes. Constant. */
#include "gguf_priv.h"

static const struct {
    const char *name;
    uint32_t bytes;
} kinds[] = {
    [HALO_GGUF_U8] = {"u8", 1},       [HALO_GGUF_I8] = {"i8", 1},     [HALO_GGUF_U16] = {"u16", 2},
    [HALO_GGUF_I16] = {"i16", 2},     [HALO_GGUF_U32] = {"u32", 4},   [HALO_GGUF_I32] = {"i32", 4},
    [HALO_GGUF_F32] = {"f32", 4},     [HALO_GGUF_BOOL] = {"bool", 1}, [HALO_GGUF_STRING] = {"string", 0},
    [HALO_GGUF_ARRAY] = {"array", 0}, [HALO_GGUF_U64] = {"u64", 8},   [HALO_GGUF_I64] = {"i64", 8},
    [HALO_GGUF_F64] = {"f64", 8},
};

const char *gguf_kind_name(uint32_t kind)
{
    return kind < sizeof kinds / sizeof kinds[0] ? kinds[kind].name : NULL;
}

uint32_t gguf_kind_bytes(uint32_t kind)
{
    return kind < sizeof kinds / sizeof kinds[0] ? kinds[kind].bytes : 0;
}
