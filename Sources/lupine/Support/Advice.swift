internal import LupineSession

extension SessionError {
  /// What a person can do about it; empty when the message says everything.
  var advice: String {
    switch code {
    case .notConnected: "Check the machine's network and name servers."
    case .cannotFindHost: "Check the spelling of the host and the network's name service."
    case .proxyFailed: "Is the proxy running, and are its URL and port right? --no-proxy '*' goes without one."
    case .proxyAuthenticationRequired: "Give user and password with --proxy-auth, or check those that were given."
    // EMFILE; what else the machine lacks the message says.
    case .cannotConnect where message.contains("(errno 24)"): "Allow more open files: ulimit -n."
    case .cannotConnect where ["(errno 1)", "(errno 12)", "(errno 13)", "(errno 23)"].contains(where: message.contains):
      ""
    case .cannotConnect: "Is the server running, and is the port right?"
    case .serverCertificateUntrusted: trustAdvice
    case .secureConnectionFailed where message.hasPrefix("the client identity cannot be read"):
      "Is the key encrypted? --key-pass FILE gives its passphrase."
    case .timedOut where [.resolve, .connect, .proxy, .tls].contains(phase):
      "Allow more time with --connect-timeout SECONDS, or look whether anybody answers there."
    case .timedOut: "Allow more time with --timeout SECONDS, or look whether the server is stuck."
    case .tooManyRedirects: "Raise --max-redirects, or look at the chain with --verbose."
    case .connectionLost, .truncatedResponse: "Try again; --verbose shows how far the exchange came."
    case .cannotDecodeContent: "--no-compressed asks for a body without a coding, and takes it as it comes."
    case .bodyNotReplayable: "Send the body from a file (@FILE), or say at once who is asking: --auth-type basic."
    default: ""
    }
  }

  /// Only what can help: an authority cures neither a wrong name nor a wrong key, nor a certificate that has expired.
  private var trustAdvice: String {
    let insecure = "--insecure accepts any certificate, and anybody on the path."
    return switch trustFault {
    case .key: "If one of these keys is the right one, give it with --pin."
    case .name: "Ask for a name that the certificate has; \(insecure)"
    case .authority: "Give the authority's certificate with --cacert FILE; \(insecure)"
    case .other, nil: insecure
    }
  }

  private static let settings = [
    "SessionConfiguration.", "RedirectConfiguration.", "TLSConfiguration.", "WireLeniency.", "WireLimits.",
    "Credential.", "Request.",
  ]

  private static func namesSetting(_ text: Substring) -> Bool { settings.contains { text.contains($0) } }

  /// The same for people and programs that have options, and none of the library's settings: what names one is left out.
  var forTool: SessionError {
    // The first clause says what happened.
    let kept = message.split(separator: "; ").map(Self.withoutAsides).enumerated().filter { place, clause in
      place == 0 || !Self.namesSetting(clause)
    }
    var error = self
    error.message = kept.map { String($0.element) }.joined(separator: "; ")
    return error
  }

  /// A clause without what it says in brackets of settings.
  private static func withoutAsides(_ clause: Substring) -> Substring {
    var (result, rest) = (Substring(), clause)
    while let start = rest.firstRange(of: " ("), let end = rest[start.upperBound...].firstIndex(of: ")") {
      result += rest[..<start.lowerBound]
      if !namesSetting(rest[start.upperBound..<end]) { result += rest[start.lowerBound...end] }
      rest = rest[rest.index(after: end)...]
    }
    return result + rest
  }

  /// Whether any request of the task left, the failed one or one before it.
  var hasSentRequest: Bool {
    requestBytesSent || response != nil || metrics?.transactions.contains { $0.requestStart != nil } == true
  }
}
