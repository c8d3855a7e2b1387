import Glibc
import Testing

@testable import LupineTesting

/// In processes of their own, because descriptors and threads are counted for the whole process.
@Suite struct CensusTests {
  @Test func seesALeakedDescriptor() async {
    await #expect(processExitsWith: .success) {
      let before = DescriptorCensus.now(threadsNamed: "lupine")
      let leaked = unsafe open("/dev/null", O_RDONLY | O_CLOEXEC)
      #expect(!before.isRestored(withinSeconds: 0.01))
      #expect(before.newcomers() == ["\(leaked) -> /dev/null"])
      close(leaked)
      #expect(before.isRestored(), "\(before.newcomers())")
    }
  }

  @Test func serversLeaveNothingBehind() async {
    await #expect(processExitsWith: .success) {
      let authority = try CertificateAuthority()
      let before = DescriptorCensus.now(threadsNamed: "lupine")
      do {
        let latch = try Latch()
        let server = try LoopbackServer(routes: ServerRoute.standard(latch: latch), tls: .minted(by: authority))
        let scripted = try ScriptedServer(
          [[.readHead, .send("HTTP/1.1 2"), .reset], [.stall(nil)]], surplus: .repeatLast)
        let raw = try RawClient(server)
        #expect(DescriptorCensus.now(threadsNamed: "lupine").threads >= 2)
        let client = try RawTLSClient(raw, trusting: authority)
        try client.send("GET /hello HTTP/1.1\r\n\r\n")
        _ = try client.receive()
        let stalled = try RawTLSClient(RawClient(server), trusting: authority)
        try stalled.send("GET /slow HTTP/1.1\r\n\r\n")
        _ = try server.waitForRequests(2)
        let reset = try RawClient(scripted.address, port: scripted.port)
        try reset.send("GET / HTTP/1.1\r\n\r\n")
        _ = try? reset.receiveAll()
        let other = try RawClient(scripted.address, port: scripted.port)
        server.shutdown()
        scripted.shutdown()
        _ = try? other.receiveAll()
      }
      #expect(before.isRestored(), "\(before.newcomers())")
    }
  }

  @Test func aPeerThatVanishesDoesNotKillTheProcess() async {
    await #expect(processExitsWith: .success) {
      signal(SIGPIPE, SIG_DFL)
      let authority = try CertificateAuthority()
      for tls in [nil, try ServerTLS.minted(by: authority)] {
        let server = try LoopbackServer(routes: ServerRoute.standard(), tls: tls)
        let raw = try RawClient(server)
        let secure = try tls.map { _ in try RawTLSClient(raw, trusting: authority) }
        let request = "GET /bytes?n=1000000000 HTTP/1.1\r\n\r\n"
        try secure?.send(request)
        if secure == nil { try raw.send(request) }
        _ = try server.waitForRequests(1)
        raw.finish()
        server.shutdown()
      }
    }
  }
}
