import Foundation
import Lupine
import LupineBase
import LupineTesting
import Testing

/// The matrix in memory, and a part of it over connections.
@Suite(.timeLimit(.minutes(5))) struct CertificateMatrixTests {
  @Test func everyCertificateUnderEveryPolicy() throws {
    let table = try CertificateMatrix.table()
    #expect(table.rows.count == 30 && table.columns.count == 19)
    let root = try CertificateMatrix.Authorities.shared.get().root.rootDER
    for row in table.rows {
      let server = try #require(try CertificateMatrix.server(row.name), "\(row.name)")
      let trust = ServerTrust(
        certificateChain: server.identity.chainDER, roots: .certificates([root]), host: server.host)
      var words: [String] = []
      for column in table.columns {
        let policy = try #require(try CertificateMatrix.policy(column, for: server), "\(column)")
        words.append(CertificateMatrix.word(policy.evaluate(trust, forDomain: server.host).error))
      }
      #expect(words == row.words, "\(row.name)")
    }
  }

  /// Columns that are tried over TLS with every certificate.
  static let connected = ["none", "none:A:D-", "cert:leaf:A", "cert:root", "key:leaf", "key:middle:A", "key:leaf:A:D-"]

  @Test func overConnections() async throws {
    let table = try CertificateMatrix.table()
    let columns = Self.connected.map { name in (name, table.columns.firstIndex(of: name)) }
    let root = try CertificateMatrix.Authorities.shared.get().root.rootDER
    // OpenSSL's server refuses to show so weak a key at its own security level.
    for row in table.rows where row.name != "weak-key" {
      let server = try #require(try CertificateMatrix.server(row.name))
      let loopback = try LoopbackServer(routes: ServerRoute.standard(), tls: ServerTLS(server.identity))
      defer { loopback.shutdown() }
      var accepted = 0
      for (name, index) in columns {
        let policy = try #require(try CertificateMatrix.policy(name, for: server))
        let expected = row.words[try #require(index)]
        var configuration = SessionConfiguration()
        configuration.engine = .own
        configuration.tls.roots = .certificates([root])
        let origin = "\(server.host):\(loopback.port)"
        configuration.nameOverrides = [origin: "127.0.0.1:\(loopback.port)"]
        let session = try Session(configuration, delegate: PolicyDelegate(policy))
        defer { session.invalidateAndCancel() }
        do {
          let (body, _) = try await session.data(from: "https://\(origin)/hello")
          #expect(String(decoding: body, as: UTF8.self) == "Hello, world!")
          #expect(expected == "yes", "\(row.name) under \(name)")
          accepted += 1
        } catch let error as SessionError {
          #expect(
            error.code == .serverCertificateUntrusted && error.phase == .tls && !error.requestBytesSent, "\(error)")
          let refusal = try #require(error.underlying as? SecurityPolicyError, "\(row.name) under \(name): \(error)")
          #expect(CertificateMatrix.word(refusal) == expected, "\(row.name) under \(name): \(refusal)")
          #expect(refusal.host == server.host)
        }
      }
      // Not a byte of a request reached the server without trust.
      #expect(loopback.requestCount == accepted, "\(row.name)")
    }
  }
}

/// Lets a policy decide, as the managers do.
final class PolicyDelegate: SessionDelegate {
  let handledCallbacks: CallbackSet = .sessionChallenge
  private let policy: Locked<SecurityPolicy>
  let questions = Locked(0)

  init(_ policy: SecurityPolicy) { self.policy = Locked(policy) }

  func change(to policy: SecurityPolicy) { self.policy.withLock { $0 = policy } }

  func session(
    _ session: Session, didReceive challenge: ConnectionChallenge,
    completionHandler: @escaping @Sendable (ConnectionChallengeDisposition) -> Void
  ) {
    questions.withLock { $0 += 1 }
    completionHandler(policy.withLock { $0 }.disposition(for: challenge))
  }
}
