import Glibc
import Testing

@testable import LupineTesting

/// Real servers. A missing program is a failure that names the command which installs it, never a silent skip.
@Suite struct LauncherTests {
  @Test func launchesNginx() throws {
    let authority = try CertificateAuthority()
    let body = PatternBody.bytes(100_000)
    let server = try NginxServer(files: ["a/b.bin": body], tls: .minted(by: authority))
    defer { server.stop() }
    let client = try RawClient(.ipv4, port: server.port)
    #expect(try client.get("/hello").text == "Hello, world!")
    #expect(try client.get("/a/b.bin").body == body)
    let secure = try RawTLSClient(RawClient(.ipv4, port: #require(server.tlsPort)), trusting: authority)
    try secure.send("GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    #expect(try secure.receiveAll().text.hasSuffix("\r\n\r\nHello, world!"))
    #expect(server.log == "")
    server.stop()
    #expect(throws: LoopbackError.self) { try RawClient(.ipv4, port: server.port) }
  }

  @Test func launchesOpenSSL() throws {
    let authority = try CertificateAuthority()
    let server = try OpenSSLServer(
      tls: .minted(by: authority), mode: .responses(["r": Array("HTTP/1.1 200 OK\r\n\r\nhello".utf8)]),
      arguments: ["-tls1_2"])
    defer { server.stop() }
    let client = try RawTLSClient(RawClient(.ipv4, port: server.port), trusting: authority)
    try client.send("GET /r HTTP/1.1\r\n\r\n")
    #expect(try client.receiveAll().text == "HTTP/1.1 200 OK\r\n\r\nhello")
  }

  @Test func launchesPython() throws {
    let server = try PythonServer(files: ["x.txt": Array("from Python".utf8)])
    defer { server.stop() }
    let client = try RawClient(.ipv4, port: server.port)
    #expect(try client.get("/x.txt").text == "from Python")
    #expect(try client.get("/x.txt").text == "from Python")
  }

  /// A port is kept for its program: nobody else is given it, nobody is taken for the program before that listens, and then it listens there.
  @Test func portsAreKeptForTheirPrograms() throws {
    let ports = try ReservedPorts(2)
    #expect(Set(ports.numbers).count == 2 && !ports.areAccepting)
    for (isProgram, expected) in [(false, EADDRINUSE), (true, 0)] {
      var sockets: [Int32] = []
      defer { for socket in sockets { close(socket) } }
      for number in ports.numbers {
        let socket = try SocketName.socket(.ipv4)
        sockets.append(socket)
        if isProgram { SystemCalls.setOption(socket, SOL_SOCKET, SO_REUSEADDR, 1) }
        let code = try unsafe SocketName.with(.ipv4, port: number) { pointer, length in
          unsafe bind(socket, pointer, length) == 0 ? 0 : errno
        }
        #expect(code == expected)
        if isProgram { #expect(listen(socket, 1) == 0) }
      }
      #expect(ports.areAccepting == isProgram)
    }
    #expect(!ports.areAccepting)
  }

  @Test func namesTheCommandThatInstallsWhatIsMissing() throws {
    let directory = try TemporaryDirectory()
    #expect(throws: LoopbackError.missingTool(name: "no-such-program", install: "do this")) {
      try LaunchedProcess("no-such-program", install: "do this", arguments: [], directory: directory)
    }
  }

  @Test func reportsAProgramThatEnds() throws {
    let process = try LaunchedProcess("false", install: "", arguments: [], directory: TemporaryDirectory())
    #expect(throws: LoopbackError.toolFailed(name: "false", output: "")) {
      try process.waitUntilReady { nil as Int? }
    }
  }
}
