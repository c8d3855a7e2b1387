internal import HTTPTypes
internal import LupineEngine
internal import LupineIO
internal import LupineRules
internal import LupineTLS
internal import LupineWire

extension SessionError {
  /// What the engine reports, in the words of the session.
  init(_ failure: TransferFailure, url: ParsedURL) {
    let (code, message) = Self.translate(failure)
    self.init(
      code, phase: Phase(rawValue: failure.phase.rawValue), message: message, failingURL: url.requestString,
      requestBytesSent: failure.requestBytesSent,
      underlying: Self.reason(failure.error) ?? ProxyRefusal(failure.error) ?? failure.error)
  }

  /// What the delegate gave as the reason why it does not trust a server, or the body's producer as the reason why there is no more.
  private static func reason(_ error: EngineError) -> (any Error)? {
    switch error {
    case .bodyProducer(let error as SessionError) where error.isOfBody: error.underlying ?? error
    case .bodyProducer(let error): error
    case .tls(.untrusted(.rejected(let rejection))), .tls(.identityRefused(let rejection)): rejection.cause
    default: nil
    }
  }

  /// A server that hangs up during the handshake is one that was lost, and no response was cut; whether it is a FIN or a reset is the kernel's choice.
  private static func translate(_ failure: TransferFailure) -> (Code, String) {
    switch failure.error {
    case .tls(.truncated) where failure.phase == .tls:
      (.connectionLost, "the server hung up during the TLS handshake")
    case .io(let error) where failure.phase == .tls:
      (.connectionLost, "the connection was lost during the TLS handshake: \(error)")
    case let error: translate(error)
    }
  }

  private static func translate(_ error: EngineError) -> (Code, String) {
    switch error {
    case .wire(let error): translate(error)
    case .content(.ratioLimit(let limit, let decoded, let encoded)):
      (
        .cannotDecodeContent,
        "\(encoded) bytes of the body became \(decoded), more than \(limit) times as many; see SessionConfiguration.maximumDecompressionRatio, Request.maximumDecompressionRatio"
      )
    case .content(let error): (.cannotDecodeContent, "the body breaks its content coding or a limit: \(error)")
    case .contentCoding(let error): (.cannotDecodeContent, "the list of content codings is refused: \(error)")
    case .closedBeforeResponse: (.connectionLost, "the server closed the connection without a response")
    case .unsolicitedBytes: (.badResponse, "the server sent bytes before it was asked anything")
    case .tls(let error): translate(error)
    case .resolve(.temporary): (.notConnected, "the name servers did not answer")
    case .connect(let error) where error.isUnreachable: (.notConnected, describe(error))
    case .resolve(let error): (.cannotFindHost, "the host \(describe(error))")
    case .connect(let error): (.cannotConnect, describe(error))
    case .localAddress(let local, nil):
      (
        .cannotConnect,
        "what is to be reached has no address of the same family as the local address \(local); see SessionConfiguration.localAddress"
      )
    case .localAddress(let local, let error?):
      (
        .cannotConnect,
        "the local address \(local) cannot be connected from: \(list(error)); see SessionConfiguration.localAddress"
      )
    case .cellular(let interface):
      (
        .cellularAccessRefused,
        "the host is reached over the cellular interface \(interface), which the request may not use"
      )
    case .proxy(let failure): translate(failure)
    case .io(let error): (.connectionLost, "the connection was lost: \(error)")
    case .file(let error): (.fileFailed, "the file of the request body cannot be read: \(error)")
    case .fileShrank(let expected, let actual):
      (.requestBodyFailed, "the file of the request body shrank from \(expected) to \(actual) bytes while it was sent")
    case .fileChanged(let expected, let actual):
      (
        .fileChanged,
        "a file had \(expected) bytes when it was added to the body, and has \(actual) now, while it is sent"
      )
    // Of a body whose files are read through a stream.
    case .bodyProducer(let error as SessionError) where error.isOfBody: (error.code, error.message)
    case .bodyProducer(let error): (.requestBodyFailed, "the body sequence threw: \(error)")
    case .bodyLength(let expected, let actual):
      (.requestBodyFailed, "the body was announced with \(expected) bytes and has \(actual)")
    case .cancelled: (.cancelled, "the task was cancelled")
    case .tooManyWaiters(let limit):
      (
        .tooManyWaiters,
        "\(limit) requests wait for a connection already; see SessionConfiguration.maximumWaitingRequests"
      )
    case .poolClosed: (.sessionInvalidated, "the session was invalidated, or its engine was shut down")
    case .deadline(let phase): (.timedOut, "the deadline of phase \(phase.rawValue) passed")
    case .bodyDeadline(let limit): (.timedOut, "the body of the request had nothing to send \(when(limit))")
    }
  }

  private static func when(_ limit: DeadlineLimit) -> String {
    switch limit {
    case .idle:
      "for as long as nothing may move (SessionConfiguration.timeoutIntervalForRequest, Request.timeoutInterval)"
    case .send: "when the time for sending was over (SessionConfiguration.sendTimeout)"
    case .total:
      "when the time of the task was over (SessionConfiguration.timeoutIntervalForResource, Request.totalTimeout)"
    }
  }

  /// Only some of these say anything of the host.
  private static func describe(_ error: ResolveError) -> String {
    switch error {
    case .notFound, .invalidName: "has no address: \(error)"
    case .temporary, .timedOut, .overloaded, .unavailable, .stopped, .descriptors, .thread, .system:
      "could not be looked up: \(error)"
    }
  }

  private static func translate(_ failure: ProxyFailure) -> (Code, String) {
    switch failure {
    case .resolve(.temporary): (.notConnected, "the name servers did not answer")
    case .resolve(let error): (.proxyFailed, "the proxy's host \(describe(error))")
    case .connect(let error) where error.isUnreachable: (.notConnected, describe(error))
    case .connect(let error): (.proxyFailed, "the proxy cannot be reached: \(describe(error))")
    case .io(let error): (.proxyFailed, "the connection to the proxy was lost: \(error)")
    case .tls(let error): (.proxyFailed, "TLS with the proxy: \(translate(error).1)")
    case .closed, .tunnel(.closed): (.proxyFailed, "the proxy hung up before the way to the origin was free")
    case .unsolicitedBytes: (.proxyFailed, "the proxy sent bytes behind its answer, which belong to nobody")
    case .tunnel(.refused(let refusal)) where refusal.status == 407:
      (
        .proxyAuthenticationRequired,
        "the proxy wants to know who is asking (407): there are no credentials that it asks for, or they are wrong"
      )
    case .tunnel(.refused(let refusal)):
      (.proxyRefused, "the proxy opened no tunnel: it answered CONNECT with status \(refusal.status)")
    case .tunnel(.wire(let error)) where error.reason.isLimit:
      (.proxyFailed, "the proxy's answer to CONNECT exceeds a limit (SessionConfiguration.wireLimits): \(error)")
    case .tunnel(.wire(let error)): (.proxyFailed, "the proxy's answer to CONNECT breaks HTTP/1.1: \(error)")
    case .tunnel(.badRequest(let error)): (.badRequest, "CONNECT would break HTTP framing: \(error)")
    case .tunnel(.credentials(let text)), .credentials(let text):
      (.cannotAuthenticate, "the credentials cannot be sent to the proxy: \(text)")
    case .target(.temporary): (.notConnected, "the name servers did not answer")
    case .target(let error): (.cannotFindHost, "the host \(describe(error))")
    case .socks(let error): translate(error)
    }
  }

  private static func translate(_ error: SOCKS5Error) -> (Code, String) {
    switch error {
    case .nameLength(let count): (.badURL, "SOCKS5 carries host names of 1 to 255 bytes; this one has \(count)")
    case .userLength, .passwordLength:
      (.cannotAuthenticate, "SOCKS5 carries users and passwords of at most 255 bytes")
    case .noAcceptableMethod: (.proxyAuthenticationRequired, "\(error)")
    case .credentialsRefused: (.proxyAuthenticationRequired, "the SOCKS proxy refused user and password")
    case .refused(let reply): (.proxyRefused, "the SOCKS proxy does not connect to the host: \(reply)")
    case .wrongVersion, .methodNotOffered, .unknownAddressType:
      (.proxyFailed, "the proxy does not speak SOCKS5: \(error)")
    }
  }

  private static func translate(_ error: WireError) -> (Code, String) {
    switch error.reason {
    case .truncatedHead, .truncatedBody, .truncatedChunkedBody:
      (.truncatedResponse, "the response ended early: \(error)")
    case .closedBeforeResponse: (.connectionLost, "the server closed the connection without a response")
    case let reason where reason.isLimit:
      (.badResponse, "the response exceeds a limit (SessionConfiguration.wireLimits): \(error)")
    default: (.badResponse, "the response breaks HTTP/1.1: \(error)")
    }
  }

  private static func translate(_ error: TLSError) -> (Code, String) {
    switch error {
    case .untrusted(.rejected(let rejection)):
      (.serverCertificateUntrusted, "the server was not trusted: \(rejection.reason)")
    case .untrusted(.pinMismatch(let found)):
      (
        .serverCertificateUntrusted,
        "none of the server's public keys is pinned; it has \(ServerTrust.describe(keys: found))"
      )
    case .untrusted(let problem): (.serverCertificateUntrusted, "the server's certificate is not trusted: \(problem)")
    case .truncated: (.truncatedResponse, "the TLS connection was cut without close_notify")
    case .notTLS(let byte):
      (
        .secureConnectionFailed,
        "the server does not speak TLS (its first byte is \(byte)); is this an http port?"
      )
    case .rootsUnreadable(let path, let reason):
      (.secureConnectionFailed, "the trusted roots cannot be read: \(path): \(reason)")
    case .noSystemRoots:
      (
        .secureConnectionFailed,
        "the system has no trusted roots (Debian: package ca-certificates); see TLSConfiguration.roots"
      )
    case .revocationListUnreadable(let path, let reason):
      (.secureConnectionFailed, "the revocation lists cannot be read: \(path): \(reason)")
    case .identityUnreadable(let reason): (.secureConnectionFailed, "the client identity cannot be read: \(reason)")
    case .identityRefused(let rejection):
      (.secureConnectionFailed, "no client certificate was chosen: \(rejection.reason)")
    default: (.secureConnectionFailed, "TLS failed: \(error)")
    }
  }

  private static func list(_ error: ConnectError) -> String {
    error.attempts.map { "\($0.address): \($0.error)" }.joined(separator: "; ")
  }

  private static func describe(_ error: ConnectError) -> String {
    let attempts = list(error)
    return attempts.isEmpty ? "there is no address to connect to" : "no address accepts connections: \(attempts)"
  }
}

extension ProxyRefusal {
  init?(_ error: EngineError) {
    guard case .proxy(.tunnel(.refused(let refusal))) = error else { return nil }
    var fields = HTTPFields()
    for (name, value) in refusal.fields.pairs {
      if let name = HTTPField.Name(name) { fields.append(HTTPField(name: name, value: value)) }
    }
    self.init(statusCode: refusal.status, reason: refusal.reason, fields: fields)
  }
}
