internal import LupineIO
internal import LupineRules
internal import LupineTLS

/// A body that can be read twice: once to be hashed, once to be sent.
enum BodyHash: Sendable {
  case bytes([UInt8])
  case file(path: String, offset: Int64, length: Int64?)
  case pieces([BodyHash])

  /// Up to so many bytes are hashed where they are asked for; more, and files, on a thread that may take its time.
  static let inlineLimit = 64 << 10

  init?(_ body: Request.Body) {
    switch body {
    case .none, .stream: return nil
    case .bytes(let bytes): self = .bytes(bytes)
    case .file(let path, let offset, let length): self = .file(path: path, offset: offset, length: length)
    case .segments(let segments):
      let pieces = segments.compactMap { BodyHash($0.body) }
      guard pieces.count == segments.count else { return nil }
      self = .pieces(pieces)
    }
  }

  var isSmall: Bool {
    sizeInMemory.map { $0 <= Self.inlineLimit } ?? false
  }

  /// Nil if there is more to hash than what is in memory.
  private var sizeInMemory: Int? {
    switch self {
    case .bytes(let bytes): return bytes.count
    case .file: return nil
    case .pieces(let pieces):
      var total = 0
      for piece in pieces {
        guard let size = piece.sizeInMemory else { return nil }
        total += size
      }
      return total
    }
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
    try add(to: &digest)
    guard let hash = digest.finish() else { throw Self.unavailable(function) }
    return hash
  }

  private func add(to digest: inout MessageDigest) throws(SessionError) {
    switch self {
    case .bytes(let bytes): digest.add(bytes.span)
    case .pieces(let pieces): for piece in pieces { try piece.add(to: &digest) }
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
  }

  private static func unavailable(_ function: DigestHash) -> SessionError {
    SessionError(
      .cannotAuthenticate, phase: .authentication, message: "OpenSSL does not offer \(function.name) here",
      requestBytesSent: true)
  }
}
