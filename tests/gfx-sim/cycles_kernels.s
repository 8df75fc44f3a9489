# cycles_kernels.s: kernels whose time can be counted by hand, for test_cycles.c.
.amdgcn_target "amdgcn-amd-amdhsa--gfx1151"
.include "kernel.inc"
.text

# 64 matrix products on 4 sums: no product waits for the one before it.
KERNEL wmma 64 0
.set i, 0
.rept 48
    v_mov_b32 v[i], 0
.set i, i + 1
.endr
.rept 16
    v_wmma_f32_16x16x16_f16 v[0:7], v[32:39], v[40:47], v[0:7]
    v_wmma_f32_16x16x16_f16 v[8:15], v[32:39], v[40:47], v[8:15]
    v_wmma_f32_16x16x16_f16 v[16:23], v[32:39], v[40:47], v[16:23]
    v_wmma_f32_16x16x16_f16 v[24:31], v[32:39], v[40:47], v[24:31]
.endr
END wmma

# 100 additions, each of the sum of the one before.
KERNEL chain 8 0
    v_mov_b32 v1, 0
.rept 100
    v_add_nc_u32 v1, v1, v0
.endr
END chain

# 8 loads from LDS whose 32 lanes have one bank.
KERNEL banks 8 4096
    v_lshlrev_b32 v1, 7, v0
    v_mov_b32 v2, 0
    ds_store_b32 v1, v2
    s_waitcnt lgkmcnt(0)
.rept 8
    ds_load_b32 v2, v1
.endr
    s_waitcnt lgkmcnt(0)
END banks

# The same from neighbouring banks.
KERNEL no_banks 8 4096
    v_lshlrev_b32 v1, 2, v0
    v_mov_b32 v2, 0
    ds_store_b32 v1, v2
    s_waitcnt lgkmcnt(0)
.rept 8
    ds_load_b32 v2, v1
.endr
    s_waitcnt lgkmcnt(0)
END no_banks

# 8 lines, one after the other, then the first of them again.
KERNEL loads 8 0
    s_load_b64 s[2:3], s[0:1], 0x0
    v_lshlrev_b32 v1, 2, v0
    s_waitcnt lgkmcnt(0)
.set i, 0
.rept 8
    global_load_b32 v2, v1, s[2:3] offset:i
    s_waitcnt vmcnt(0)
.set i, i + 128
.endr
    global_load_b32 v2, v1, s[2:3]
    s_waitcnt vmcnt(0)
END loads

# The same, all under way together.
KERNEL loads_ahead 16 0
    s_load_b64 s[2:3], s[0:1], 0x0
    v_lshlrev_b32 v1, 2, v0
    s_waitcnt lgkmcnt(0)
.set i, 0
.rept 8
    global_load_b32 v[2 + i / 128], v1, s[2:3] offset:i
.set i, i + 128
.endr
    s_waitcnt vmcnt(0)
    global_load_b32 v2, v1, s[2:3]
    s_waitcnt vmcnt(0)
END loads_ahead

# The first wave's 200 additions, for which the others wait.
KERNEL barrier 8 0
    v_mov_b32 v1, 0
    v_readfirstlane_b32 s4, v0
    s_cmp_lg_u32 s4, 0
    s_cbranch_scc1 1f
.rept 200
    v_add_nc_u32 v1, v1, v0
.endr
1:
    s_barrier
END barrier
