/* gguf_kind.c: names and sizes of the types of values, names of the types of tensors. Constant. */
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
    return kind < sizeof(kinds) / sizeof(kinds[0]) ? kinds[kind].name : NULL;
}

uint32_t gguf_kind_bytes(uint32_t kind)
{
    return kind < sizeof(kinds) / sizeof(kinds[0]) ? kinds[kind].bytes : 0;
}

const char *gguf_type_name(uint32_t type)
{
    static const char *const names[] = {
        "F32",        "F16",        "Q4_0",       "Q4_1",  "Q4_2",     "Q4_3",     "Q5_0",     "Q5_1",    "Q8_0",
        "Q8_1",       "Q2_K",       "Q3_K",       "Q4_K",  "Q5_K",     "Q6_K",     "Q8_K",     "IQ2_XXS", "IQ2_XS",
        "IQ3_XXS",    "IQ1_S",      "IQ4_NL",     "IQ3_S", "IQ2_S",    "IQ4_XS",   "I8",       "I16",     "I32",
        "I64",        "F64",        "IQ1_M",      "BF16",  "Q4_0_4_4", "Q4_0_4_8", "Q4_0_8_8", "TQ1_0",   "TQ2_0",
        "IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8", "MXFP4", "NVFP4",    "Q1_0",     "Q2_0",
    };
    return type < sizeof(names) / sizeof(names[0]) ? names[type] : NULL;
}
