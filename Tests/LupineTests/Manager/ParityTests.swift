import Foundation
import Lupine
import LupineTestSupport
import LupineTesting
import Testing

/// Facts of AFNetworking's older test suites that belong to no other suite here.
@Suite struct ParityTests {
  /// A hundred tasks that are made at the same time have identifiers of their own (3.2.1).
  @Test func testThatTaskIdentifiersAreUniqueWhenCreatedConcurrently() async throws {
    let manager = try HTTPSessionManager()
    let request = try Request("http://localhost:1/")
    let identifiers = await withTaskGroup(of: UInt64.self) { group in
      for _ in 0..<100 {
        group.addTask { manager.dataTask(with: request, completion: nil).taskIdentifier }
      }
      return await group.reduce(into: Set()) { $0.insert($1) }
    }
    #expect(identifiers.count == 100)
  }

  /// The progress of a task can be a part of another one: 80 of 100 units are done with it (2.5.4).
  @Test(arguments: [true, false]) func testThatProgressCanBecomeAChild(_ isUpload: Bool) async throws {
    try await withManager { manager, server in
      let parent = Recorder<Progress>()
      parent.add(Progress(totalUnitCount: 100))
      let request =
        isUpload ? try Request(server.url("/upload"), method: .post) : try manager.request(.get, "bytes?n=300000")
      let end = await ended { handler in
        let task: DataTask =
          isUpload
          ? manager.uploadTask(with: request, from: Data(PatternBody.bytes(300_000)), completion: handler)
          : manager.dataTask(with: request, responseSerializer: HTTPResponseSerializer(), completion: handler)
        let child = isUpload ? manager.uploadProgress(for: task) : manager.downloadProgress(for: task)
        if let child { parent.values.first?.addChild(child, withPendingUnitCount: 80) }
        return task
      }
      #expect(end.error == nil)
      #expect(await eventually { parent.values.first?.fractionCompleted == 0.8 })
    }
  }

  /// Names of hosts are compared without case (2.5.4).
  @Test func testThatPolicyComparesHostsCaseInsensitively() throws {
    let server = try #require(try CertificateMatrix.server("valid-ecdsa"))
    let root = try CertificateMatrix.Authorities.shared.get().root.rootDER
    for host in [server.host, server.host.uppercased(), "wWw.ExAmPlE.TeSt"] {
      let trust = ServerTrust(
        certificateChain: server.identity.chainDER, roots: .certificates([root]), host: host)
      #expect(SecurityPolicy.default.evaluate(trust, forDomain: host).error == nil, "\(host)")
    }
  }
}
