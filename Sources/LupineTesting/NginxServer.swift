/// A real nginx on free loopback ports, with a configuration, a log and temporary files of its own below `/tmp`.
///
/// It serves the given files, and besides `/hello` (the 13 bytes `Hello, world!`), `/discard` (takes any body) and
/// `/gzip/…` (the files, compressed for clients that ask). It ends with this object, or by `stop()`.
public final class NginxServer: Sendable {
  /// The plaintext port on 127.0.0.1.
  public let port: Int
  /// The TLS port on 127.0.0.1; nil without TLS.
  public let tlsPort: Int?
  private let process: LaunchedProcess
  private let ports: ReservedPorts

  /// The command that installs it.
  public static let installCommand = "apt-get install -y nginx-light"

  /// Starts nginx and waits until it accepts connections.
  ///
  /// - Parameters:
  ///   - files: what it serves: a path without leading slash, and its bytes.
  ///   - tls: identity and versions of a second, TLS listener; `allowsResumption` sets tickets and session cache.
  ///   - directives: more lines for its `server` block, for example `"chunked_transfer_encoding off;"`.
  /// - Throws: `LoopbackError.missingTool` with the command that installs it, `.toolFailed` with its output.
  public init(
    files: [String: [UInt8]] = [:], tls: ServerTLS? = nil, directives: String = ""
  ) throws(LoopbackError) {
    let directory = try TemporaryDirectory()
    for (name, bytes) in files { try directory.write(bytes, to: "root/" + name) }
    try directory.write([], to: "root/.keep")
    let ports = try ReservedPorts(tls == nil ? 1 : 2)
    self.ports = ports
    if let tls {
      try directory.write(Array(tls.certificateChain.utf8), to: "chain.pem")
      try directory.write(Array(tls.privateKey.utf8), to: "key.pem")
      if let authorities = tls.clientAuthorities { try directory.write(Array(authorities.utf8), to: "clients.pem") }
    }
    let text = Self.configuration(directory.path, ports.numbers, tls, directives)
    try directory.write(Array(text.utf8), to: "nginx.conf")
    process = try LaunchedProcess(
      "nginx", install: Self.installCommand,
      arguments: ["-e", "stderr", "-p", directory.path, "-c", directory.path + "/nginx.conf"], directory: directory)
    port = Int(ports.numbers[0])
    tlsPort = tls == nil ? nil : Int(ports.numbers[1])
    try process.waitUntilReady { ports.areAccepting ? true : nil }
  }

  /// The plaintext URL of a path.
  public func url(_ path: String = "/") -> String { "http://127.0.0.1:\(port)\(path)" }

  /// The TLS URL of a path; nil without TLS.
  public func tlsURL(_ path: String = "/") -> String? { tlsPort.map { "https://localhost:\($0)\(path)" } }

  /// What nginx wrote to its error log.
  public var log: String { process.output }

  /// Ends nginx. Calling it again does nothing.
  public func stop() { process.stop() }

  private static func configuration(
    _ directory: String, _ ports: [UInt16], _ tls: ServerTLS?, _ directives: String
  ) -> String {
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
      .map { "\($0)_temp_path \(directory)/\($0);" }.joined(separator: " ")
    var listeners = "listen 127.0.0.1:\(ports[0]) backlog=1024;\n"
    if let tls {
      let versions = [(ServerTLS.Version.tls12, "TLSv1.2"), (.tls13, "TLSv1.3")]
        .filter { $0.0 >= tls.minimumVersion && $0.0 <= tls.maximumVersion }.map { $0.1 }.joined(separator: " ")
      let resumption =
        tls.allowsResumption
        ? "ssl_session_tickets on; ssl_session_cache builtin:1000;"
        : "ssl_session_tickets off; ssl_session_cache off;"
      listeners += """
        listen 127.0.0.1:\(ports[1]) ssl backlog=1024;
        ssl_certificate \(directory)/chain.pem; ssl_certificate_key \(directory)/key.pem;
        ssl_protocols \(versions); \(resumption) ssl_session_timeout 1h;

        """
      if tls.clientAuthorities != nil {
        listeners +=
          "ssl_client_certificate \(directory)/clients.pem; "
          + "ssl_verify_client \(tls.requiresClientCertificate ? "on" : "optional");\n"
      }
    }
    return """
      daemon off; master_process off; pid \(directory)/nginx.pid; error_log stderr warn;
      events { worker_connections 16384; }
      http {
        access_log off; default_type application/octet-stream; \(temporary)
        sendfile on; tcp_nodelay on; client_max_body_size 0;
        keepalive_requests 1000000000; keepalive_timeout 3600s;
        server {
          \(listeners)
          root \(directory)/root;
          location = /hello { default_type text/plain; return 200 "Hello, world!"; }
          location = /discard { return 200 "discarded"; }
          location /gzip/ { alias \(directory)/root/; gzip on; gzip_min_length 1; gzip_types *; gzip_proxied any; }
          \(directives)
        }
      }

      """
  }
}
