internal import Glibc

/// A real proxy on a free loopback port, with a configuration of its own below `/tmp`. It ends with this object, or by `stop()`.
public final class ProxyProgram: Sendable {
  /// Which program, and what it asks for.
  public enum Kind: Sendable, Equatable {
    /// tinyproxy: HTTP, with Basic or without credentials.
    case tinyproxy
    /// squid: HTTP, with Digest (MD5) or without credentials.
    case squid
    /// microsocks: SOCKS5, with user and password or without.
    case microsocks
    /// stunnel: TLS with this identity, in front of what listens on a port.
    case stunnel(ServerTLS, to: Int)
  }

  /// The port on 127.0.0.1.
  public let port: Int
  private let process: LaunchedProcess
  private let ports: ReservedPorts
  /// The name that squid's shared memory has.
  private let service: String?

  /// Starts it and waits until it accepts connections.
  ///
  /// - Parameters:
  ///   - user: who may use it, with `password`; nil: everybody. Without effect for stunnel.
  /// - Throws: `LoopbackError.missingTool` with the command that installs it, `.toolFailed` with its output.
  public convenience init(
    _ kind: Kind, user: String? = nil, password: String = ""
  ) throws(LoopbackError) {
    // Where a machine is busy one may take longer to start than is waited for: it gets another chance.
    for _ in 1...3 {
      do throws(LoopbackError) {
        try self.init(once: kind, user.map { ($0, password) })
        return
      } catch {
        guard case .toolFailed = error else { throw error }
      }
    }
    try self.init(once: kind, user.map { ($0, password) })
  }

  private init(once kind: Kind, _ credentials: (String, String)?) throws(LoopbackError) {
    let directory = try TemporaryDirectory()
    let ports = try ReservedPorts(1)
    self.ports = ports
    let port = ports.numbers[0]
    self.port = Int(port)
    let name: String
    let arguments: [String]
    switch kind {
    case .tinyproxy:
      let text = Self.tinyproxy(port, credentials, directory.path)
      try directory.write(Array(text.utf8), to: "proxy.conf")
      name = "tinyproxy"
      arguments = ["-d", "-c", directory.path + "/proxy.conf"]
    case .squid:
      if let (user, password) = credentials {
        let digest = try Digest(.md5)
        digest.add(Array("\(user):lupine:\(password)".utf8)[...])
        try directory.write(Array("\(user):lupine:\(digest.finish())\n".utf8), to: "users")
      }
      try directory.write(Array(Self.squid(port, credentials != nil, directory.path).utf8), to: "proxy.conf")
      // Started by root, it goes on as another user, who must be able to read these.
      for (file, mode) in [("", mode_t(0o711)), ("/users", 0o644), ("/proxy.conf", 0o644)] {
        unsafe chmod(directory.path + file, mode)
      }
      name = "squid"
      arguments = ["-N", "-n", "lupine\(port)", "-f", directory.path + "/proxy.conf"]
    case .microsocks:
      name = "microsocks"
      arguments = ["-i", "127.0.0.1", "-p", "\(port)"] + (credentials.map { ["-u", $0.0, "-P", $0.1] } ?? [])
    case .stunnel(let tls, let target):
      try directory.write(Array((tls.privateKey + tls.certificateChain).utf8), to: "identity.pem")
      let text = """
        foreground = yes
        pid =
        syslog = no
        [proxy]
        accept = 127.0.0.1:\(port)
        connect = 127.0.0.1:\(target)
        cert = \(directory.path)/identity.pem

        """
      try directory.write(Array(text.utf8), to: "proxy.conf")
      name = "stunnel"
      arguments = [directory.path + "/proxy.conf"]
    }
    service = kind == .squid ? "lupine\(port)" : nil
    process = try LaunchedProcess(
      name, install: "apt-get install -y \(name == "stunnel" ? "stunnel4" : name)", arguments: arguments,
      directory: directory)
    try process.waitUntilReady { ports.areAccepting ? true : nil }
  }

  deinit { stop() }

  /// What it wrote.
  public var log: String { process.output }

  /// Ends it. Calling it again does nothing.
  public func stop() {
    process.stop()
    guard let service else { return }
    for part in ["metadata", "queues", "readers"] { unsafe unlink("/dev/shm/\(service)-cf__\(part).shm") }
  }

  private static func tinyproxy(_ port: UInt16, _ credentials: (String, String)?, _ directory: String) -> String {
    """
    Port \(port)
    Listen 127.0.0.1
    Timeout 60
    MaxClients 50
    LogLevel Warning
    PidFile "\(directory)/pid"
    \(credentials.map { "BasicAuth \($0.0) \($0.1)" } ?? "")

    """
  }

  private static func squid(_ port: UInt16, _ asks: Bool, _ directory: String) -> String {
    let helpers: [String] = ["/usr/lib/squid/digest_file_auth", "/usr/lib64/squid/digest_file_auth"]
    let helper = helpers.first { path in unsafe access(path, X_OK) == 0 }
    return """
      http_port 127.0.0.1:\(port)
      pid_filename none
      visible_hostname lupine.test
      cache deny all
      cache_mem 8 MB
      access_log none
      cache_log /dev/null
      coredump_dir \(directory)
      netdb_filename none
      shutdown_lifetime 0 seconds
      pinger_enable off
      max_filedescriptors 1024
      \(asks ? "auth_param digest program \(helper ?? "digest_file_auth") -c \(directory)/users" : "")
      \(asks ? "auth_param digest children 1\nauth_param digest realm lupine\nacl users proxy_auth REQUIRED" : "")
      http_access allow \(asks ? "users" : "all")
      http_access deny all

      """
  }
}
