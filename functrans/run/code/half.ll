; Software conversions of half-precision floats, for CPUs without conversion instructions.
;
; LLVM calls them by their names in compiler runtime libraries, which need not be loaded in the
; process: __extendhfsf2, __truncsfhf2 and __truncdfhf2. The results are bit for bit those of the
; instructions. No x86 has an instruction from float64 to half; LLVM needs that conversion when it
; copies the sign of a float64.

define float @half_to_float(half %x) {
  %half = bitcast half %x to i16
  %word = zext i16 %half to i32
  %magnitude = and i32 %word, 32767
  %sign.low = and i32 %word, 32768
  %sign = shl i32 %sign.low, 16
  %shifted = shl i32 %magnitude, 13
  %small = bitcast i32 %shifted to float
  %scaled = fmul float %small, 0x46F0000000000000  ; 2^112, also right for subnormal numbers
  %finite = bitcast float %scaled to i32
  %special = or i32 %shifted, 2139095040           ; infinity, or NaN with its payload
  %is.nan = icmp ugt i32 %magnitude, 31744
  %quiet = or i32 %special, 4194304
  %beyond = select i1 %is.nan, i32 %quiet, i32 %special
  %is.finite = icmp ult i32 %magnitude, 31744
  %size = select i1 %is.finite, i32 %finite, i32 %beyond
  %bits = or i32 %size, %sign
  %result = bitcast i32 %bits to float
  ret float %result
}

define half @float_to_half(float %x) {
  %word = bitcast float %x to i32
  %magnitude = and i32 %word, 2147483647
  %sign.high = lshr i32 %word, 16
  %sign = and i32 %sign.high, 32768
  %odd.bit = lshr i32 %magnitude, 13
  %odd = and i32 %odd.bit, 1
  %up = add i32 %magnitude, 4095                   ; round to nearest, ties to even
  %rounded = add i32 %up, %odd
  %rebased = sub i32 %rounded, 939524096
  %normal = lshr i32 %rebased, 13
  %absolute = bitcast i32 %magnitude to float
  %aligned = fadd float %absolute, 5.000000e-01    ; aligns it with the last bit of a subnormal
  %aligned.bits = bitcast float %aligned to i32
  %subnormal = sub i32 %aligned.bits, 1056964608
  %is.small = icmp ult i32 %magnitude, 947912704   ; 2^-14
  %finite = select i1 %is.small, i32 %subnormal, i32 %normal
  %is.large = icmp uge i32 %magnitude, 1199566848  ; 65520
  %bounded = select i1 %is.large, i32 31744, i32 %finite
  %payload.long = lshr i32 %magnitude, 13
  %payload = and i32 %payload.long, 1023
  %nan = or i32 %payload, 32256
  %is.nan = icmp ugt i32 %magnitude, 2139095040
  %size = select i1 %is.nan, i32 %nan, i32 %bounded
  %bits = or i32 %size, %sign
  %half = trunc i32 %bits to i16
  %result = bitcast i16 %half to half
  ret half %result
}

define half @double_to_half(double %x) {
  %near = fptrunc double %x to float
  %back = fpext float %near to double
  %inexact = fcmp one double %back, %x
  %size = call double @llvm.fabs.f64(double %x)
  %size.back = call double @llvm.fabs.f64(double %back)
  %beyond = fcmp ogt double %size.back, %size
  %word = bitcast float %near to i32
  %one.less = zext i1 %beyond to i32
  %inwards = sub i32 %word, %one.less              ; round to odd: truncate, and set the last
  %last.bit = zext i1 %inexact to i32              ; bit; then rounding twice is exact
  %odd = or i32 %inwards, %last.bit
  %float = bitcast i32 %odd to float
  %result = call half @float_to_half(float %float)
  ret half %result
}

declare double @llvm.fabs.f64(double)
