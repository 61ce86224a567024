; Asks Linux for large pages (MADV_HUGEPAGE) for 4 MiB or more, as NumPy does.
;
; The address is rounded up to the largest of the pages that CPUs have, 64 KiB: Linux refuses less.

declare i32 @madvise(ptr, i64, i32)
define internal void @advise(ptr %block, i64 %size) noinline optnone {
  %is.huge = icmp uge i64 %size, 4194304
  br i1 %is.huge, label %ask, label %done
ask:
  %address = ptrtoint ptr %block to i64
  %up = add i64 %address, 65535
  %start = and i64 %up, -65536
  %skipped = sub i64 %start, %address
  %length = sub i64 %size, %skipped
  %page = inttoptr i64 %start to ptr
  call i32 @madvise(ptr %page, i64 %length, i32 14)
  br label %done
done:
  ret void
}
