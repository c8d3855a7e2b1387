internal import LupineCommandLine
internal import LupineSession

/// What the tool tells its caller by its exit status. Documented in `--help` and in Docs/CommandLine.md.
enum ExitStatus: Int32, Sendable, CaseIterable {
  case success = 0
  /// Anything that has no status of its own.
  case failure = 1
  /// The command line, the URL or an item makes no sense; nothing was sent.
  case misuse = 2
  /// No address for the host, or nobody answers there.
  case cannotConnect = 3
  /// TLS failed, or the certificate is not trusted.
  case tls = 4
  /// The server broke HTTP, or broke off.
  case protocolError = 5
  /// A deadline passed.
  case timeout = 6
  /// A status of 400 or above, with `--fail`.
  case httpStatus = 22

  init(_ error: SessionError) {
    self =
      switch error.code {
      case .badURL where !error.hasSentRequest, .badRequest where !error.hasSentRequest,
        .badProxy where !error.hasSentRequest, .cannotAuthenticate where !error.hasSentRequest,
        .badTrailers where !error.hasSentRequest:
        .misuse
      case .cannotFindHost, .cannotConnect, .notConnected, .proxyFailed, .proxyRefused, .proxyAuthenticationRequired:
        .cannotConnect
      case .secureConnectionFailed, .serverCertificateUntrusted: .tls
      // The server hung up during the handshake.
      case .connectionLost where error.phase == .tls: .tls
      case .connectionLost, .truncatedResponse, .badResponse, .cannotDecodeContent, .tooManyRedirects, .redirectRefused:
        .protocolError
      case .timedOut: .timeout
      default: .failure
      }
  }

  /// One line for each, for help texts.
  static let table = """
    EXIT STATUS:
      0   success (any HTTP status, unless --fail)
      1   anything else: a file that cannot be written, for example
      2   misuse: the command line, URL or an item makes no sense; nothing was sent
      3   cannot connect: the host has no address, nobody answers there, or a proxy is in the way
      4   TLS failed, or the certificate is not trusted
      5   protocol: the server broke HTTP, broke off, or redirected too often
      6   timeout
      22  the status is 400 or above, with --fail
    """
}

extension System {
  /// Tells of a failure beside the one that ends the command, whose status counts: what was to be kept is lost. As there, nothing is said where a reader has
  /// gone.
  static func tell(loss error: any Error) {
    if (error as? Failure)?.isReaderGone == true { return }
    let message =
      switch error {
      case let failure as CommandFailure: TerminalText.escaped(failure.message, keepsLines: true)
      case let error as SessionError: TerminalText.escaped(error.forTool.description)
      default: TerminalText.escaped("\(error)")
      }
    tell("lupine: \(message)\n")
  }
}

/// Ends a command with a status and, if not empty, a message on standard error.
struct CommandFailure: Error, Sendable, Equatable {
  var status: ExitStatus
  var message: String

  init(_ status: ExitStatus, _ message: String = "") {
    self.status = status
    self.message = message
  }

  static func misuse(_ message: String) -> CommandFailure { CommandFailure(.misuse, message) }
}
