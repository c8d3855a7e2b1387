internal import LupineSession

extension SessionError {
  /// What a person can do about it; empty when the message says everything.
  var advice: String {
    switch code {
    case .notConnected: "Check the machine's network and name servers."
    case .cannotFindHost: "Check the spelling of the host and the network's name service."
    case .proxyFailed: "Is the proxy running, and are its URL and port right? --no-proxy '*' goes without one."
    case .proxyAuthenticationRequired: "Give user and password with --proxy-auth, or check those that were given."
    case .cannotConnect: "Is the server running, and is the port right?"
    case .serverCertificateUntrusted: trustAdvice
    case .secureConnectionFailed where message.hasPrefix("the client identity cannot be read"):
      "Is the key encrypted? --key-pass FILE gives its passphrase."
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

  /// The same for people and programs that have options, and none of the library's settings: what names one is left out.
  var forTool: SessionError {
    let clauses = message.split(separator: "; ")
    let settings = ["SessionConfiguration.", "RedirectConfiguration.", "TLSConfiguration.", "Credential.", "Request."]
    // The first one says what happened.
    let kept = clauses.enumerated().filter { place, clause in
      place == 0 || !settings.contains { clause.contains($0) }
    }
    var error = self
    error.message = kept.map { String($0.element) }.joined(separator: "; ")
    return error
  }

  /// Whether any request of the task left, the failed one or one before it.
  var hasSentRequest: Bool {
    requestBytesSent || response != nil || metrics?.transactions.contains { $0.requestStart != nil } == true
  }
}
