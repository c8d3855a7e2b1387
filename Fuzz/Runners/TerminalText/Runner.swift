internal import LupineFuzzBodies

/// libFuzzer's entry.
@c(LLVMFuzzerTestOneInput)
public func fuzzOne(_ data: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  unsafe TerminalTextFuzz.run(bytes: Array(UnsafeBufferPointer(start: data, count: count)))
  return 0
}
