; Stands in for advice.ll on systems without madvise.

define internal void @advise(ptr %block, i64 %size) noinline optnone {
  ret void
}
