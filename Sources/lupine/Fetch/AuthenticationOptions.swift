internal import ArgumentParser
internal import LupineCommandLine
internal import LupineSession

/// Who is asking.
struct AuthenticationOptions: ParsableArguments {
  @Option(
    name: [.customShort("a"), .long],
    help: ArgumentHelp(
      """
      Who is asking, told when the server wants to know; the token for bearer. @FILE reads it from a file, @- from standard input: \
      other users of the machine can see command lines.
      """,
      valueName: "user:password"))
  var auth: String?

  @Option(
    name: [.customShort("A"), .long],
    help: ArgumentHelp("any (the default: what the server asks for), basic, digest or bearer.", valueName: "type"))
  var authType: AuthenticationType?

  /// - Parameter ofURL: who the URL says is asking, who counts unless `--auth` names another one.
  /// - Returns: nil unless an option says something; what is in the URL alone needs no credential.
  /// - Throws: `CommandFailure`; no message repeats what was given.
  func credential(ofURL: (user: String, password: String?)?) throws(CommandFailure) -> Credential? {
    guard let auth else {
      guard let authType else { return nil }
      guard let ofURL, authType != .bearer else {
        throw .misuse("--auth-type needs --auth, or, but for bearer, user and password in the URL")
      }
      return authType.credential(user: ofURL.user, password: ofURL.password ?? "")
    }
    return try CredentialText.credential(try CredentialText.read(auth), authType ?? .any)
  }
}

extension AuthenticationType: ExpressibleByArgument {}

/// Credentials as users write them.
enum CredentialText {
  /// Bytes of a file of credentials.
  private static let limit = 64 * 1024

  /// The text itself, or the first line of a file or of standard input.
  static func read(_ text: String) throws(CommandFailure) -> String {
    guard let path = text.pathBehindAt else { return text }
    var bytes: [UInt8] = []
    do throws(System.Failure) {
      bytes = path == "-" ? try System.inputLine(limit: limit) : try InputFile(path).line(limit: limit)
    } catch {
      throw .misuse(error.description)
    }
    let line = bytes.prefix { $0 != UInt8(ascii: "\r") }
    guard let text = String(validating: line, as: UTF8.self), line.count < limit else {
      throw .misuse("the credentials in \(path == "-" ? "standard input" : path) are no line of text")
    }
    return text
  }

  static func credential(_ text: String, _ type: AuthenticationType) throws(CommandFailure) -> Credential {
    if type == .bearer { return .bearer(text, persistence: .none) }
    guard let colon = text.utf8.firstIndex(of: UInt8(ascii: ":")) else {
      throw .misuse("--auth is user:password, or user: for an empty password")
    }
    let password = String(text[text.utf8.index(after: colon)...])
    return type.credential(user: String(text[..<colon]), password: password)
  }
}
