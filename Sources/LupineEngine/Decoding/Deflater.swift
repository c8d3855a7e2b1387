internal import CLupineZlib
package import LupineRules

/// Applies a content coding to bytes in memory: the other way round of `Inflater`.
package enum Deflater {
  /// Bytes that are given out at a time.
  private static let chunkSize = 64 * 1024

  /// The whole of `bytes`, encoded; the same bytes give the same result every time: neither a time nor a name is in it. `deflate` is zlib's form
  /// (RFC 1950), which the name means.
  ///
  /// - Returns: nil: there is no memory for it (256 KiB and the result).
  package static func encode(_ bytes: Span<UInt8>, _ coding: ContentCoding) -> [UInt8]? {
    // zlib's state points back at it: it must not move.
    let stream = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
    unsafe stream.initialize(to: z_stream())
    defer { unsafe stream.deallocate() }
    let windowBits = coding == .gzip ? MAX_WBITS + 16 : MAX_WBITS
    guard unsafe CLupineZlib_deflateInit2(stream, Z_DEFAULT_COMPRESSION, windowBits) == Z_OK else { return nil }
    defer { unsafe deflateEnd(stream) }
    var encoded: [UInt8] = []
    var offset = 0
    while true {
      let count = min(bytes.count - offset, Int(UInt32.max))
      let isLast = offset + count == bytes.count
      let part = bytes.extracting(offset..<offset + count)
      unsafe part.withUnsafeBufferPointer { input in
        unsafe stream.pointee.next_in = UnsafeMutablePointer(mutating: input.baseAddress)
        unsafe stream.pointee.avail_in = UInt32(count)
        unsafe drain(stream, isLast: isLast, into: &encoded)
        unsafe stream.pointee.next_in = nil
      }
      offset += count
      if isLast { return encoded }
    }
  }

  /// Has zlib take all of its input, and at the end give out all that it holds. Without faults: memory was given before, and the calls are in order.
  private static func drain(_ stream: UnsafeMutablePointer<z_stream>, isLast: Bool, into encoded: inout [UInt8]) {
    var output = [UInt8](repeating: 0, count: chunkSize)
    while true {
      let count = unsafe output.withUnsafeMutableBufferPointer { output in
        unsafe stream.pointee.next_out = output.baseAddress
        unsafe stream.pointee.avail_out = UInt32(output.count)
        _ = unsafe deflate(stream, isLast ? Z_FINISH : Z_NO_FLUSH)
        return output.count - Int(unsafe stream.pointee.avail_out)
      }
      encoded += output[..<count]
      if count < chunkSize { return }
    }
  }
}
