internal import Synchronization
internal import LupineBase
internal import LupineRules
internal import LupineTLS

/// What the tasks of a session share: the storage, and what servers were found to ask for. Nothing here outlives the session.
final class SessionAuthentication: Sendable {
  let storage: CredentialStorage?
  let configuration: AuthenticationConfiguration
  private let memory = LockedStorage(AuthenticationMemory())
  /// Whether there is anything in the memory, to be read without the lock: a request to a server that asks for nothing shall not pay for it.
  private let hasMemory = Atomic<Bool>(false)

  init(storage: CredentialStorage?, configuration: AuthenticationConfiguration) {
    self.storage = storage
    self.configuration = configuration
  }

  /// Whether something may be sent that was not asked for in this task.
  var isInformed: Bool { hasMemory.load(ordering: .relaxed) }

  func use(
    _ party: AuthenticationParty, target: String, isUsable: (ChallengeAnswer) -> Bool
  ) -> ChallengeAnswer? {
    guard isInformed, configuration.isPreemptive else { return nil }
    return memory.withLock { $0.use(party: party, target: target, isUsable: isUsable) }
  }

  /// The count to answer a challenge with; 0 if the nonce has no more.
  func nextCount(of nonce: String, _ party: AuthenticationParty) -> UInt32 {
    memory.withLock { $0.nextCount(of: nonce, party: party) }
  }

  func learn(_ answer: ChallengeAnswer, _ party: AuthenticationParty, url: ParsedURL) {
    change { $0.learn(answer, party: party, url: url) }
  }

  func forget(_ answer: ChallengeAnswer, _ party: AuthenticationParty) {
    change { $0.forget(answer, party: party) }
  }

  func replaceNonce(of answer: ChallengeAnswer, by nonce: String, _ party: AuthenticationParty) {
    change { $0.replaceNonce(of: answer, by: nonce, party: party) }
  }

  /// Forgets every nonce and path; the storage stays.
  func reset() {
    change { $0.removeAll() }
  }

  private func change(_ body: (inout AuthenticationMemory) -> Void) {
    memory.withLock { memory in
      body(&memory)
      hasMemory.store(!memory.isEmpty, ordering: .relaxed)
    }
  }

  // MARK: OpenSSL

  static let hasher: DigestHasher = { hash, bytes in MessageDigest.hash(MessageDigestKind(hash), bytes) }

  /// 128 bits in hexadecimal; nil if the machine has no entropy.
  static func clientNonce() -> String? {
    SecureRandom.bytes(16).map { String(decoding: AuthenticationText.hexadecimal($0), as: UTF8.self) }
  }
}

extension MessageDigestKind {
  init(_ hash: DigestHash) {
    switch hash {
    case .md5: self = .md5
    case .sha256: self = .sha256
    case .sha512Truncated: self = .sha512Truncated
    }
  }
}
