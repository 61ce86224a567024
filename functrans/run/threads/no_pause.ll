; Stands in for a pause instruction on CPUs that have none.

define internal void @pause() alwaysinline {
  ret void
}
