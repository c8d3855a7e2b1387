internal import CLupineZlib

/// Content codings for responses of tests, by zlib.
public enum Compression: Sendable, CaseIterable {
  /// RFC 1952: `Content-Encoding: gzip`.
  case gzip
  /// RFC 1950, what `Content-Encoding: deflate` means.
  case zlib
  /// RFC 1951 without a wrapper, what some servers send as `deflate`.
  case rawDeflate

  fileprivate var windowBits: Int32 {
    switch self {
    case .gzip: 15 + 16
    case .zlib: 15
    case .rawDeflate: -15
    }
  }

  /// Encodes bytes in one go. Several members, one after the other, are legal for gzip only.
  public func encode(_ bytes: [UInt8], members: Int = 1, level: Int = 6) throws(LoopbackError) -> [UInt8] {
    var result: [UInt8] = []
    let size = max(1, (bytes.count + members - 1) / max(1, members))
    for member in 0..<max(1, members) {
      let part = bytes[min(bytes.count, member * size)..<min(bytes.count, (member + 1) * size)]
      let compressor = try Compressor(self, level: level)
      try compressor.add(part, isLast: true) { result += $0 }
    }
    return result
  }
}

/// A deflate stream of bounded memory.
@safe
final class Compressor {
  private let stream: UnsafeMutablePointer<z_stream>
  private var output = [UInt8](repeating: 0, count: 64 * 1024)

  init(_ format: Compression, level: Int = 6) throws(LoopbackError) {
    unsafe stream = .allocate(capacity: 1)
    unsafe stream.initialize(to: z_stream())
    // All is set: `deinit` follows what is thrown here, and frees.
    let code = unsafe CLupineZlib_deflateInit2(stream, Int32(clamping: level), format.windowBits)
    guard code == Z_OK else { throw .misuse("deflateInit2: \(code)") }
  }

  deinit {
    // Of a stream that zlib refused this frees nothing.
    unsafe deflateEnd(stream)
    unsafe stream.deallocate()
  }

  /// Compresses bytes and hands out what comes of it.
  func add(
    _ bytes: ArraySlice<UInt8>, isLast: Bool, _ sink: (ArraySlice<UInt8>) throws(LoopbackError) -> Void
  ) throws(LoopbackError) {
    var input = Array(bytes)
    var offset = 0
    while true {
      let (consumed, produced) = unsafe input.withUnsafeMutableBufferPointer { source in
        unsafe output.withUnsafeMutableBufferPointer { target in
          unsafe stream.pointee.next_in = source.baseAddress.map { unsafe $0 + offset }
          unsafe stream.pointee.avail_in = UInt32(source.count - offset)
          unsafe stream.pointee.next_out = target.baseAddress
          unsafe stream.pointee.avail_out = UInt32(target.count)
          _ = unsafe deflate(stream, isLast ? Z_FINISH : Z_NO_FLUSH)
          return unsafe (
            source.count - offset - Int(stream.pointee.avail_in), target.count - Int(stream.pointee.avail_out)
          )
        }
      }
      offset += consumed
      if produced > 0 { try sink(output[..<produced]) }
      if produced < output.count { return }
    }
  }
}
