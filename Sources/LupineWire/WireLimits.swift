/// How much of one response the parser is willing to keep, in bytes and in counts.
///
/// Every limit holds for the bytes of the response, however they were split into reads. The value at the limit is accepted, one
/// more is a ``WireError`` whose offset is that of the first byte too many. Values are clamped to sane ranges when a parser is
/// made: nothing below 0, ``statusLine``, ``fieldLine``, ``head`` and ``trailers`` at most 1 GiB, ``fields`` and ``trailerFields`` at most 65,000.
public struct WireLimits: Sendable, Equatable {
  /// Bytes of the status line, without its line end. Default 8 KiB.
  public var statusLine = 8 * 1024

  /// Bytes of one field line (name, colon, value and the white space around it), without its line end. Default 64 KiB.
  public var fieldLine = 64 * 1024

  /// Bytes of the whole head with all line ends, a budget shared by the informational heads before it. Default 256 KiB.
  public var head = 256 * 1024

  /// Fields in the head, a budget shared by the informational heads before it. Default 512.
  public var fields = 512

  /// Informational (1xx) heads before the final one. Default 32.
  public var informationalHeads = 32

  /// Bytes of one chunk line (size and extensions), without its line end. Default 4 KiB.
  public var chunkLine = 4 * 1024

  /// Bytes of all chunk extensions of one body together: everything between the size and the line end. Default 16 KiB.
  public var chunkExtensions = 16 * 1024

  /// Bytes of the trailer section with all line ends, the closing empty line included. Default 16 KiB.
  public var trailers = 16 * 1024

  /// Fields in the trailer section, dropped ones included. Default 128.
  public var trailerFields = 128

  /// The defaults.
  public init() {}

  /// The same limits inside the ranges that the index can express.
  var clamped: WireLimits {
    var result = self
    result.statusLine = min(max(0, statusLine), 1 << 30)
    result.fieldLine = min(max(0, fieldLine), 1 << 30)
    result.head = min(max(0, head), 1 << 30)
    result.fields = min(max(0, fields), 65_000)
    result.informationalHeads = max(0, informationalHeads)
    result.chunkLine = max(0, chunkLine)
    result.chunkExtensions = max(0, chunkExtensions)
    result.trailers = min(max(0, trailers), 1 << 30)
    result.trailerFields = min(max(0, trailerFields), 65_000)
    return result
  }
}
