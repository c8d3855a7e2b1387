internal import HTTPTypes
internal import LupineBase
internal import LupineCommandLine
internal import LupineRules
internal import LupineSession

/// One line of standard input, with the files that it names: a request, and what its session must be like.
struct BatchRequest: Sendable {
  /// What decides which session carries a request: requests with equal settings share connections. Paths are compared as the system does, byte by byte.
  struct SessionKey: Hashable, Sendable {
    @ByteExact var caFile: String? = nil
    var insecure = false
    var pins: Set<[UInt8]> = []
    @ByteExact var clientCertificate: String? = nil
    @ByteExact var clientKey: String? = nil
    var resolve: [String: String] = [:]
    @ByteExact var unixSocket: String? = nil
    var jar = BatchJars.Choice.none
    /// A directory.
    @ByteExact var cache: String? = nil
  }

  var request: Request
  var sessionKey: SessionKey
  /// The body goes into a file instead of the result.
  var file: BatchLine.File?

  init(_ json: JSONValue) throws(BatchRefusal) {
    let line = try BatchLine(json, inheritedExceptions: ProxyOptions.inheritedExceptions)
    request = line.request
    sessionKey = try Self.sessionKey(line.settings)
    file = line.file
    try setBody(line)
  }

  private static func sessionKey(_ settings: BatchLine.Settings) throws(BatchRefusal) -> SessionKey {
    var key = SessionKey()
    key.caFile = settings.caFile
    key.insecure = settings.insecure
    do throws(CommandFailure) {
      key.pins = try Pins.read(settings.pins)
    } catch {
      throw BatchRefusal("\"pins\": \(error.message)")
    }
    key.clientCertificate = settings.clientCertificate
    key.clientKey = settings.clientKey
    key.unixSocket = settings.unixSocket
    key.resolve = settings.resolve
    switch settings.cookies {
    case .none: key.jar = .none
    case .shared: key.jar = .shared
    case .file(let path): key.jar = .file(ByteExact(wrappedValue: try jarPath(path)))
    }
    key.cache = settings.cache
    return key
  }

  /// Where a file of cookies is, whatever links lead there. What cannot be looked at is refused: it would count as missing, and what a link of somebody
  /// else's leads to, which the system does not follow, would be read and replaced.
  private static func jarPath(_ path: String) throws(BatchRefusal) -> String {
    do throws(System.Failure) {
      _ = try FileSystem.isThere(path)
    } catch {
      throw BatchRefusal("\"cookieFile\": \(error.description)", code: "fileFailed")
    }
    return FileSystem.resolved(path)
  }

  private mutating func setBody(_ line: BatchLine) throws(BatchRefusal) {
    switch line.body {
    case .none: if line.isChunked { request.body = Self.chunked(.bytes([])) }
    case .bytes(let bytes): request.body = line.isChunked ? Self.chunked(.bytes(bytes)) : .bytes(bytes)
    case .file(let path):
      if line.isChunked || !line.trailers.isEmpty { try Self.checkReadable(path) }
      request.body = line.isChunked ? Self.chunked(.file(path: path)) : .file(path: path)
    case .form(let parts):
      let form = try Self.form(parts)
      let body = form.body
      request.fields[.contentType] = form.contentType
      request.body =
        line.isChunked ? .stream(length: nil, isReplayable: body.isReplayable) { body.makeStream() } : body
    }
    let trailers = line.trailers
    if !trailers.isEmpty { request.body = request.body.withTrailers { trailers } }
  }

  private static func form(_ parts: [BatchLine.Part]) throws(BatchRefusal) -> FormParts {
    var form = FormParts()
    for part in parts {
      switch part {
      case .value(let name, let value): form.add(name: name, value: Array(value.utf8))
      case .file(let name, let path, let fileName, let type):
        do {
          try form.add(name: name, path: path, fileName: fileName, type: type)
        } catch {
          throw BatchRefusal((error as? CommandFailure)?.message ?? "\(error)", code: "fileFailed")
        }
      }
    }
    return form
  }

  /// Of a stream the file is opened only where it is sent, behind the head.
  private static func checkReadable(_ path: String) throws(BatchRefusal) {
    do throws(System.Failure) {
      try FileSystem.checkReadable(path)
    } catch {
      throw BatchRefusal("\"bodyFile\": \(error.description)", code: "fileFailed")
    }
  }

  private static func chunked(_ segment: SegmentedBody.Segment) -> Request.Body {
    .stream(length: nil, isReplayable: true) { BodyStream(SegmentedBody([segment])) }
  }
}
