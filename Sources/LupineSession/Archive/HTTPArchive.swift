internal import LupineRules
public import FoundationEssentials

/// Exchanges on record, in the form of HAR 1.2 (HTTP Archive): what browsers' developer tools read and write.
///
/// A value in memory holds everything, secrets too; `json(redactingSecrets:)` leaves them out unless told otherwise.
public struct HTTPArchive: Sendable, Equatable {
  /// The program that made an archive.
  public struct Creator: Sendable, Equatable {
    /// Its name.
    public var name: String
    /// Its version.
    public var version: String

    /// This library, unless told otherwise.
    public init(name: String = "Lupine", version: String = "0.1") {
      self.name = name
      self.version = version
    }
  }

  /// A field of a message.
  public struct Field: Sendable, Equatable {
    /// The name as it was on the wire.
    public var name: String
    /// The value as text.
    public var value: String
    /// A secret, whatever its name is: redacted like `Authorization`. Not kept in files.
    public var isSensitive: Bool

    /// Makes a field.
    public init(_ name: String, _ value: String, isSensitive: Bool = false) {
      self.name = name
      self.value = value
      self.isSensitive = isSensitive
    }
  }

  /// A request.
  public struct Request: Sendable, Equatable {
    /// The method.
    public var method: String
    /// The absolute URL, without fragment.
    public var url: String
    /// "HTTP/1.1".
    public var httpVersion = "HTTP/1.1"
    /// The fields in wire order and case.
    public var fields: [Field] = []
    /// The body; nil: none, or not kept.
    public var body: [UInt8]?
    /// Fields after the body, as far as they are known: a recorder sees them, and metrics do not say them. `HTTPArchive.append` can be given them.
    public var trailers: [Field] = []
    /// Bytes of the head; nil: not known.
    public var headerBytes: Int64?
    /// Bytes of the body on the wire, chunk framing left out; nil: not known.
    public var bodyBytes: Int64?

    /// Makes a request.
    public init(method: String, url: String) {
      self.method = method
      self.url = url
    }

    /// The first value of a field of this name, in any case.
    public func first(named name: String) -> String? { HTTPArchive.first(fields, name) }
  }

  /// An interim response (1xx).
  public struct Interim: Sendable, Equatable {
    /// The status.
    public var status: Int
    /// The fields.
    public var fields: [Field]

    /// Makes an interim response.
    public init(status: Int, fields: [Field]) {
      self.status = status
      self.fields = fields
    }
  }

  /// A response.
  public struct Response: Sendable, Equatable {
    /// The status.
    public var status: Int
    /// The reason phrase.
    public var reason = ""
    /// "HTTP/1.1" or "HTTP/1.0".
    public var httpVersion = "HTTP/1.1"
    /// The fields in wire order and case.
    public var fields: [Field] = []
    /// The body after content decoding; nil: not kept.
    public var body: [UInt8]?
    /// Fields after the body.
    public var trailers: [Field] = []
    /// Interim responses before this one.
    public var informational: [Interim] = []
    /// Bytes of all heads; nil: not known.
    public var headerBytes: Int64?
    /// Bytes of the body as they came over the wire, before decoding: of a response that a cache had, 0; nil: not known.
    public var bodyBytes: Int64?
    /// Bytes of the body after decoding, also where it was not kept; nil: not known.
    public var decodedBytes: Int64?

    /// Makes a response.
    public init(status: Int) {
      self.status = status
    }

    /// The first value of a field of this name, in any case.
    public func first(named name: String) -> String? { HTTPArchive.first(fields, name) }
  }

  /// How long each phase took; nil: it did not happen, or is not known.
  public struct Timings: Sendable, Equatable {
    /// Waiting for a connection.
    public var blocked: Duration?
    /// Resolving the host.
    public var resolve: Duration?
    /// Connecting, without TLS (in a file: with it, as HAR has it).
    public var connect: Duration?
    /// The TLS handshake.
    public var tls: Duration?
    /// Sending the request.
    public var send: Duration?
    /// Waiting for the first byte of the response.
    public var wait: Duration?
    /// Receiving the response.
    public var receive: Duration?

    /// Nothing is known.
    public init() {}

    /// All phases together.
    public var total: Duration {
      [blocked, resolve, connect, tls, send, wait, receive].reduce(.zero) { $0 + ($1 ?? .zero) }
    }
  }

  /// What was agreed in the TLS handshake.
  public struct TLS: Sendable, Equatable {
    /// "TLSv1.3" or "TLSv1.2".
    public var version: String
    /// OpenSSL's name of the cipher.
    public var cipher: String?
    /// Whether an earlier session was resumed.
    public var isResumed: Bool

    /// Makes a value.
    public init(version: String, cipher: String?, isResumed: Bool) {
      self.version = version
      self.cipher = cipher
      self.isResumed = isResumed
    }
  }

  /// How an exchange failed.
  public struct Failure: Sendable, Equatable {
    /// The raw value of a `SessionError.Code`.
    public var code: String
    /// The raw value of a `SessionError.Phase`.
    public var phase: String
    /// For people.
    public var message: String
    /// Whether any byte of the request had left; see `SessionError.requestBytesSent`.
    public var requestBytesSent: Bool

    /// Makes a value.
    ///
    /// - Parameter requestBytesSent: default nil: what the phase says, before which nothing leaves.
    public init(code: String, phase: String, message: String, requestBytesSent: Bool? = nil) {
      self.code = code
      self.phase = phase
      self.message = message
      self.requestBytesSent = requestBytesSent ?? SessionError.Phase(rawValue: phase).mayHaveSent
    }

    /// What an error says of itself.
    public init(_ error: SessionError) {
      self.init(
        code: error.code.rawValue, phase: error.phase.rawValue, message: error.message,
        requestBytesSent: error.requestBytesSent)
    }
  }

  /// One exchange: a request and what came of it.
  public struct Entry: Sendable, Equatable {
    /// When the request began, to the millisecond.
    public var startedAt: Date
    /// The request.
    public var request: Request
    /// The response; nil: there was none.
    public var response: Response?
    /// The phases.
    public var timings = Timings()
    /// The address of the server, without its port; nil: not known, or a Unix-domain socket.
    public var serverAddress: String?
    /// A name of the connection, unique at its time: the local port; nil: not known, or a Unix-domain socket.
    public var connection: String?
    /// Whether the connection had served another request before; nil: not known.
    public var isReusedConnection: Bool?
    /// The TLS of the connection; nil: none, or not known.
    public var tls: TLS?
    /// Where the response came from. Default: the transport.
    public var fetchType = TransactionMetrics.FetchType.networkLoad
    /// Whether the cache had the response on a disk and not in memory; metrics do not say it, archives of browsers do. Default false. Without
    /// meaning for what came from the transport.
    public var isFromDisk = false
    /// How the exchange failed; nil: it did not.
    public var failure: Failure?
    /// Anything else.
    public var comment: String?

    /// Makes an entry.
    public init(startedAt: Date, request: Request, response: Response?) {
      self.startedAt = startedAt
      self.request = request
      self.response = response
    }
  }

  /// The program that made the archive.
  public var creator = Creator()
  /// Anything about the whole.
  public var comment: String?
  /// The exchanges.
  public var entries: [Entry] = []

  /// An archive without entries.
  public init() {}

  static func first(_ fields: [Field], _ name: String) -> String? {
    let wanted = name.lowercased()
    return fields.first { $0.name.isSame(ignoringCase: wanted) }?.value
  }
}

extension SessionError.Phase {
  /// Whether a byte of the request may have left when this phase fails.
  package var mayHaveSent: Bool {
    ![SessionError.Phase.prepare, .poolWait, .resolve, .connect, .proxy, .tls].contains(self)
  }
}
