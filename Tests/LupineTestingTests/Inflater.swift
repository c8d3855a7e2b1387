import CLupineZlib

@testable import LupineTesting

/// Decoding by zlib in one go, to judge what the server compressed.
enum Inflater {
  static func inflate(_ bytes: [UInt8], _ format: Compression) throws -> [UInt8] {
    let bits: Int32 =
      switch format {
      case .gzip: 31
      case .zlib: 15
      case .rawDeflate: -15
      }
    var input = bytes
    var result: [UInt8] = []
    var output = [UInt8](repeating: 0, count: 1 << 20)
    var offset = 0
    while offset < input.count {  // one member a turn
      var stream = unsafe z_stream()
      unsafe CLupineZlib_inflateInit2(&stream, bits)
      defer { unsafe inflateEnd(&stream) }
      var code = Z_OK
      while code == Z_OK {
        let (consumed, produced) = unsafe input.withUnsafeMutableBufferPointer { source in
          unsafe output.withUnsafeMutableBufferPointer { target in
            unsafe stream.next_in = source.baseAddress.map { unsafe $0 + offset }
            unsafe stream.avail_in = UInt32(source.count - offset)
            unsafe stream.next_out = target.baseAddress
            unsafe stream.avail_out = UInt32(target.count)
            code = unsafe CLupineZlib.inflate(&stream, Z_NO_FLUSH)
            return unsafe (source.count - offset - Int(stream.avail_in), target.count - Int(stream.avail_out))
          }
        }
        offset += consumed
        result += output[..<produced]
      }
      guard code == Z_STREAM_END else { throw LoopbackError.misuse("inflate: \(code)") }
    }
    return result
  }
}
