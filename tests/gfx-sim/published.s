# published.s: dense products as a published kernel for gfx1151 is described, to compare the model with what it measured: a block of
# 8 waves has 128 x 256 outputs, a wave 4 x 4 tiles; slabs of 32 of K, two in LDS with rows of 36 halves, one barrier a slab; 24
# registers of a thread hold its part of the next slab. 42.8 to 43.5 TFLOPS, 85 % of what its clock allows.
.amdgcn_target "amdgcn-amd-amdhsa--gfx1151"
.include "kernel.inc"
.text
.set K_BYTES, 4096 // of a row
.set PITCH, 72
.set B_AT, 128 * PITCH
.set SLAB, 384 * PITCH
# v0-127 sums; v128-143 two of A; v144-175 four of B; v176-199 the next slab; v200 A, v201 B in LDS, v202 where a thread stores;
# v204-209 its rows in memory. s[4:5] A, s[6:7] B, s[8:9] outputs, s10 slabs, s11 the slab that is stored to.

.macro FRAGMENT to at offset
    ds_load_2addr_b64 v[\to:\to+3], \at offset0:(\offset)/8 offset1:(\offset)/8+1
    ds_load_2addr_b64 v[\to+4:\to+7], \at offset0:(\offset)/8+2 offset1:(\offset)/8+3
.endm

.macro PRODUCTS a row
.set j, 0
.rept 4
    v_wmma_f32_16x16x16_f16 v[(\row * 4 + j) * 8:(\row * 4 + j) * 8 + 7], v[\a:\a+7], v[144 + 8 * j:151 + 8 * j], v[(\row * 4 + j) * 8:(\row * 4 + j) * 8 + 7]
.set j, j + 1
.endr
.endm

# Rows of tiles lie 16 * PITCH = 1152 bytes apart, which offsets of 8 bits do not reach: a register for each.
.macro HALF_SLAB k
    FRAGMENT 144, v201, \k
    FRAGMENT 152, v211, \k
    FRAGMENT 160, v212, \k
    FRAGMENT 168, v213, \k
    FRAGMENT 128, v200, \k
    FRAGMENT 136, v214, \k
    s_waitcnt lgkmcnt(2)
    PRODUCTS 128, 0
    FRAGMENT 128, v215, \k
    s_waitcnt lgkmcnt(2)
    PRODUCTS 136, 1
    FRAGMENT 136, v216, \k
    s_waitcnt lgkmcnt(2)
    PRODUCTS 128, 2
    s_waitcnt lgkmcnt(0)
    PRODUCTS 136, 3
.endm

.macro FETCH
.set i, 0
.rept 6
    .if i < 2
    global_load_b128 v[176 + 4 * i:179 + 4 * i], v[204 + i], s[4:5]
    .else
    global_load_b128 v[176 + 4 * i:179 + 4 * i], v[204 + i], s[6:7]
    .endif
.set i, i + 1
.endr
    s_add_u32 s4, s4, 64
    s_addc_u32 s5, s5, 0
    s_add_u32 s6, s6, 64
    s_addc_u32 s7, s7, 0
.endm

.macro STORE
    v_add_nc_u32 v203, s11, v202
.set i, 0
.rept 6
    ds_store_2addr_b64 v203, v[176 + 4 * i:177 + 4 * i], v[178 + 4 * i:179 + 4 * i] offset1:1
    .if i < 5
    v_add_nc_u32 v203, 64 * PITCH, v203
    .endif
.set i, i + 1
.endr
.endm

# The rows of tiles that lie behind those of v200 and v201.
.macro TILES
    v_add_nc_u32 v211, 16 * PITCH, v201
    v_add_nc_u32 v212, 32 * PITCH, v201
    v_add_nc_u32 v213, 48 * PITCH, v201
    v_add_nc_u32 v214, 16 * PITCH, v200
    v_add_nc_u32 v215, 32 * PITCH, v200
    v_add_nc_u32 v216, 48 * PITCH, v200
.endm

KERNEL dense 218 (2 * SLAB)
    s_load_b128 s[4:7], s[0:1], 0x0
    s_load_b64 s[8:9], s[0:1], 0x10
    v_mov_b32 v217, v0
    v_and_b32 v210, 15, v0
    v_lshrrev_b32 v216, 5, v0
    v_mul_u32_u24 v210, PITCH, v210
    v_readfirstlane_b32 s12, v216
    s_lshr_b32 s13, s12, 2
    s_and_b32 s12, s12, 3
    s_mul_i32 s13, s13, 64 * PITCH
    s_mul_i32 s12, s12, 64 * PITCH
    v_add_nc_u32 v200, s13, v210
    v_add_nc_u32 v201, s12, v210
    v_add_nc_u32 v201, B_AT, v201
    v_lshrrev_b32 v203, 2, v0
    v_and_b32 v202, 3, v0
    v_lshlrev_b32 v202, 4, v202
    v_mul_u32_u24 v210, K_BYTES, v203
    v_mul_u32_u24 v203, PITCH, v203
    v_add_nc_u32 v204, v210, v202
    v_add_nc_u32 v202, v203, v202
    v_add_nc_u32 v205, 64 * K_BYTES, v204
    v_mov_b32 v206, v204
    v_mov_b32 v207, v205
    v_add_nc_u32 v208, 128 * K_BYTES, v204
    v_add_nc_u32 v209, 192 * K_BYTES, v204
    TILES
.set i, 0
.rept 128
    v_mov_b32 v[i], 0
.set i, i + 1
.endr
    s_mov_b32 s10, K_BYTES / 64 - 1
    s_mov_b32 s11, 0
    s_waitcnt lgkmcnt(0)
    FETCH
    s_waitcnt vmcnt(0)
    STORE
    s_waitcnt lgkmcnt(0)
    s_barrier
1:
    s_sub_i32 s11, SLAB, s11
    FETCH
    HALF_SLAB 0
    HALF_SLAB 32
    s_waitcnt vmcnt(0)
    STORE
    s_sub_i32 s12, s11, SLAB / 2
    s_lshl_b32 s12, s12, 1
    v_add_nc_u32 v200, s12, v200
    v_add_nc_u32 v201, s12, v201
    TILES
    s_waitcnt lgkmcnt(0)
    s_barrier
    s_sub_i32 s10, s10, 1
    s_cmp_lg_u32 s10, 0
    s_cbranch_scc1 1b
    HALF_SLAB 0
    HALF_SLAB 32
    v_lshlrev_b32 v210, 2, v217
.set i, 0
.rept 128
    global_store_b32 v210, v[i], s[8:9]
    v_add_nc_u32 v210, 1024, v210
.set i, i + 1
.endr
END dense
