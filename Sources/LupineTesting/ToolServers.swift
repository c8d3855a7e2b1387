/// `openssl s_server` on a free loopback port: TLS as OpenSSL's own tool speaks it.
public final class OpenSSLServer: Sendable {
  /// What it answers.
  public enum Mode: Sendable, Equatable {
    /// `-www`: an HTML page about the TLS connection.
    case status
    /// `-WWW`: the given files, with HTTP/1.0 heads that it writes itself, ended by closing.
    case files([String: [UInt8]])
    /// `-HTTP`: the given files hold whole responses, head and body.
    case responses([String: [UInt8]])
  }

  /// The port on 127.0.0.1.
  public let port: Int
  private let process: LaunchedProcess

  /// The command that installs it.
  public static let installCommand = "apt-get install -y openssl"

  /// Starts it and waits until it accepts connections. `arguments` are added to its command line, for example `["-tls1_2"]`.
  ///
  /// Of `tls` only the identity is used. Throws `LoopbackError.missingTool` or `.toolFailed`.
  public init(tls: ServerTLS, mode: Mode = .status, arguments: [String] = []) throws(LoopbackError) {
    let directory = try TemporaryDirectory()
    try directory.write(Array(tls.certificateChain.utf8), to: "chain.pem")
    try directory.write(Array(tls.privateKey.utf8), to: "key.pem")
    let (flag, files): (String, [String: [UInt8]]) =
      switch mode {
      case .status: ("-www", [:])
      case .files(let files): ("-WWW", files)
      case .responses(let files): ("-HTTP", files)
      }
    for (name, bytes) in files { try directory.write(bytes, to: name) }
    let process = try LaunchedProcess(
      "openssl", install: Self.installCommand,
      arguments: [
        "s_server", "-accept", "127.0.0.1:0", "-cert", "chain.pem", "-cert_chain", "chain.pem", "-key", "key.pem", flag,
      ] + arguments, directory: directory)
    self.process = process
    // It says where it listens: `ACCEPT 127.0.0.1:43211`.
    port = try process.waitUntilReady {
      PortText.find(in: process.output, after: "ACCEPT 127.0.0.1:").map { Int($0) }
    }
  }

  /// The URL of a path.
  public func url(_ path: String = "/") -> String { "https://localhost:\(port)\(path)" }

  /// What it wrote.
  public var log: String { process.output }

  /// Ends it. Calling it again does nothing.
  public func stop() { process.stop() }
}

/// `python3 -m http.server` on a free loopback port, serving files.
public final class PythonServer: Sendable {
  /// The port on 127.0.0.1.
  public let port: Int
  private let process: LaunchedProcess

  /// The command that installs it.
  public static let installCommand = "apt-get install -y python3"

  /// Starts it and waits until it accepts connections.
  ///
  /// - Parameters:
  ///   - files: what it serves: a path without leading slash, and its bytes.
  ///   - version: `HTTP/1.1` keeps connections open, `HTTP/1.0` closes each (Python 3.11 or later is needed for the choice).
  /// - Throws: `LoopbackError.missingTool` or `.toolFailed`.
  public init(files: [String: [UInt8]], version: String = "HTTP/1.1") throws(LoopbackError) {
    let directory = try TemporaryDirectory()
    for (name, bytes) in files { try directory.write(bytes, to: "root/" + name) }
    try directory.write([], to: "root/.keep")
    let process = try LaunchedProcess(
      "python3", install: Self.installCommand,
      arguments: [
        "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", directory.path + "/root", "--protocol",
        version,
      ], directory: directory)
    self.process = process
    // It says where it listens: `Serving HTTP on 127.0.0.1 port 43211`.
    port = try process.waitUntilReady {
      PortText.find(in: process.output, after: "127.0.0.1 port ").map { Int($0) }
    }
  }

  /// The URL of a path.
  public func url(_ path: String = "/") -> String { "http://127.0.0.1:\(port)\(path)" }

  /// Its log: a line for each request.
  public var log: String { process.output }

  /// Ends it. Calling it again does nothing.
  public func stop() { process.stop() }
}

/// Reads the port that a tool announced.
enum PortText {
  /// The number behind `marker`, once a byte that is no digit follows it.
  static func find(in output: String, after marker: String) -> UInt16? {
    let (text, marker) = (Array(output.utf8), Array(marker.utf8))
    guard text.count > marker.count else { return nil }
    for start in 0..<(text.count - marker.count) where text[start..<(start + marker.count)].elementsEqual(marker) {
      let rest = text[(start + marker.count)...]
      let digits = rest.prefix { $0 >= 0x30 && $0 <= 0x39 }
      guard digits.count < rest.count else { return nil }
      return UInt16(String(decoding: digits, as: UTF8.self))
    }
    return nil
  }
}
