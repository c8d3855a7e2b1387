/// Why the loopback servers, or one of the tools they launch, could not do what was asked.
///
/// Every function of this module that can fail throws this type; handlers may throw it on, the server then drops the connection.
public enum LoopbackError: Error, Equatable, Sendable {
  /// A system call failed. `code` is its `errno`.
  case system(call: String, code: Int32)
  /// The peer closed its side, or the server is being shut down, where more bytes were needed.
  case peerClosed
  /// The peer reset the connection.
  case peerReset
  /// The peer sent something that is not an HTTP/1 request; the text says what.
  case malformedRequest(String)
  /// A request head is larger than the reader takes; the payload is that limit in bytes.
  case requestTooLarge(limit: Int)
  /// OpenSSL refused; the text is its reason.
  case tls(String)
  /// The caller used an object of this module in an order that makes no sense; the text says which.
  case misuse(String)
  /// A path for a Unix socket is longer than the system takes; the payload is that limit in bytes.
  case pathTooLong(limit: Int)
  /// A program that a launcher needs is not installed. `install` is the command that installs it on Debian and Ubuntu.
  case missingTool(name: String, install: String)
  /// A launched program ended, or did not accept connections in time; `output` is what it wrote so far.
  case toolFailed(name: String, output: String)
}
