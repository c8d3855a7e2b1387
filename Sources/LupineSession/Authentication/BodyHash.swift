internal import LupineIO
internal import LupineRules
internal import LupineTLS

/// A body that can be read twice: once to be hashed, once to be sent.
enum BodyHash: Sendable {
  case bytes([UInt8])
  case file(path: String, offset: Int64, length: Int64?)

  /// Up to so many bytes are hashed where they are asked for; more, and files, on a thread that may take its time.
  static let inlineLimit = 64 << 10

  init?(_ body: Request.Body) {
    switch body {
    case .none, .stream: return nil
    case .bytes(let bytes): self = .bytes(bytes)
    case .file(let path, let offset, let length): self = .file(path: path, offset: offset, length: length)
    }
  }

  var isSmall: Bool {
    if case .bytes(let bytes) = self { bytes.count <= Self.inlineLimit } else { false }
  }

  /// Blocks while a file is read. A file that changes before it is sent is refused by the server.
  func compute(_ function: DigestHash) -> Result<[UInt8], SessionError> {
    do throws(SessionError) {
      return .success(try result(function))
    } catch {
      return .failure(error)
    }
  }

  private func result(_ function: DigestHash) throws(SessionError) -> [UInt8] {
    guard var digest = MessageDigest(MessageDigestKind(function)) else { throw Self.unavailable(function) }
    switch self {
    case .bytes(let bytes): digest.add(bytes.span)
    case .file(let path, var offset, let length):
      let end = length.map { $0.addingReportingOverflow(offset) }.flatMap { $0.overflow ? nil : $0.partialValue }
      do throws(IOError) {
        let file = try File.open(path)
        while end.map({ offset < $0 }) ?? true {
          let chunk = try file.read(at: offset, count: Int(min(256 << 10, (end ?? .max) - offset)))
          if chunk.isEmpty { break }
          digest.add(chunk.span)
          offset += Int64(chunk.count)
        }
      } catch {
        throw SessionError(
          .fileFailed, phase: .authentication, message: "cannot read \(path) for its hash: \(error)",
          requestBytesSent: true, underlying: error)
      }
    }
    guard let hash = digest.finish() else { throw Self.unavailable(function) }
    return hash
  }

  private static func unavailable(_ function: DigestHash) -> SessionError {
    SessionError(
      .cannotAuthenticate, phase: .authentication, message: "OpenSSL does not offer \(function.name) here",
      requestBytesSent: true)
  }
}
