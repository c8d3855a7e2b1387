import Foundation
import Lupine
import LupineBase
import LupineTesting
import Testing

@testable import Lupine

/// What may happen when settings are changed, whatever their old values hold.
@Suite struct SettingTests {
  /// Asks the manager when it goes, as a screen does that takes its handlers back.
  private static func screen(_ manager: HTTPSessionManager, _ gone: Locked<Int>) -> Farewell {
    Farewell {
      manager.taskDidComplete = nil
      _ = manager.responseSerializer
      _ = manager.requestSerializer
      gone.withLock { $0 += 1 }
    }
  }

  /// Gives a screen to a hook, and keeps nothing.
  private static func begin(_ manager: HTTPSessionManager, _ gone: Locked<Int>) {
    manager.taskDidComplete = { [screen = screen(manager, gone)] _, _, _ in _ = screen }
  }

  /// Gives a screen to a serializer, and keeps nothing.
  private static func serialize(_ manager: HTTPSessionManager, _ gone: Locked<Int>) {
    manager.requestSerializer.base.queryStringSerialization = { [screen = screen(manager, gone)] _, _ in
      _ = screen
      return nil
    }
  }

  /// The last reference to something that asks the manager goes outside the manager's lock.
  @Test func formerValuesMayAskTheManager() throws {
    let manager = try HTTPSessionManager()
    let gone = Locked(0)
    Self.begin(manager, gone)
    manager.taskDidComplete = nil
    #expect(gone.withLock { $0 } == 1)
    Self.serialize(manager, gone)
    manager.requestSerializer = JSONRequestSerializer()
    #expect(gone.withLock { $0 } == 2)
  }

  /// A serializer that holds something which asks the operation when it goes.
  private struct Attached: ResponseSerializer {
    let screen: Farewell

    func serialize(_ response: Response?, data: Data?) throws -> Data { data ?? Data() }
  }

  /// So it is with the serializer of an operation.
  @Test func aFormerSerializerMayAskTheOperation() throws {
    let operation = HTTPRequestOperation(request: try Request("http://127.0.0.1:9/"), session: try Session())
    let gone = Locked(0)
    operation.responseSerializer = Attached(
      screen: Farewell {
        _ = operation.responseSerializer
        gone.withLock { $0 += 1 }
      })
    operation.responseSerializer = HTTPResponseSerializer()
    #expect(gone.withLock { $0 } == 1)
  }

  /// A delegate that holds something which asks its task when it goes.
  private final class Owner: SessionTaskDelegate {
    let handledCallbacks: CallbackSet = []
    private let farewell: Farewell

    init(_ farewell: Farewell) { self.farewell = farewell }
  }

  /// So it is with the delegate of a task.
  @Test func aFormerDelegateMayAskItsTask() throws {
    let task = try Session().dataTask(with: try Request("http://127.0.0.1:9/"))
    let gone = Locked(0)
    task.delegate = Owner(
      Farewell {
        _ = task.delegate
        gone.withLock { $0 += 1 }
      })
    task.delegate = nil
    #expect(gone.withLock { $0 } == 1)
  }

  private struct Snake: Decodable, Sendable {
    var someName: Int?
  }

  /// The decoder of a manager is its own: what is set there is nobody else's.
  @Test func managersShareNoDecoder() async throws {
    let route = ServerRoute(nil, "/snake") { _, connection in
      try connection.respond(fields: ["Content-Type": "application/json"], text: #"{"some_name": 1}"#)
    }
    try await withManager([route]) { manager, server in
      manager.decoder.keyDecodingStrategy = .convertFromSnakeCase
      #expect(try await manager.get("snake", as: Snake.self).someName == 1)
      let other = try HTTPSessionManager(baseURL: server.url("/"))
      #expect(try await other.get("snake", as: Snake.self).someName == nil)
      #expect(other.decoder !== manager.decoder && other.decoder === other.decoder)
      let own = JSONDecoder()
      other.decoder = own
      #expect(other.decoder === own)
      try other.invalidateSession(cancellingTasks: true)
    }
  }

  private struct Everything: Decodable {
    static let key = CodingUserInfoKey(rawValue: "key")
    var someDate: Date
    var someData: Data
    var someRatio: Double
    var note: String?

    enum CodingKeys: CodingKey { case someDate, someData, someRatio }

    init(from decoder: any Decoder) throws {
      let values = try decoder.container(keyedBy: CodingKeys.self)
      someDate = try values.decode(Date.self, forKey: .someDate)
      someData = try values.decode(Data.self, forKey: .someData)
      someRatio = try values.decode(Double.self, forKey: .someRatio)
      note = Self.key.flatMap { decoder.userInfo[$0] } as? String
    }
  }

  /// A copy of a manager has a decoder like the manager's own, and shares one that was given.
  @Test func copiesHaveDecodersOfTheirOwn() throws {
    let manager = try HTTPSessionManager()
    let plain = try HTTPSessionManager(copying: manager)
    let own = manager.decoder
    #expect(plain.decoder !== own)
    own.dateDecodingStrategy = .secondsSince1970
    own.dataDecodingStrategy = .deferredToData
    own.nonConformingFloatDecodingStrategy = .convertFromString(
      positiveInfinity: "+", negativeInfinity: "-", nan: "?")
    own.keyDecodingStrategy = .convertFromSnakeCase
    own.userInfo = [try #require(Everything.key): "note"]
    own.allowsJSON5 = true
    own.assumesTopLevelDictionary = true
    let copy = try HTTPSessionManager(copying: manager)
    #expect(copy.decoder !== own && copy.decoder === copy.decoder)
    let body = Data("some_date: 1, 'some_data': [1, 2], some_ratio: '+'".utf8)
    let value = try copy.decoder.decode(Everything.self, from: body)
    #expect(value.someDate == Date(timeIntervalSince1970: 1) && value.someData == Data([1, 2]))
    #expect(value.someRatio == .infinity && value.note == "note")
    let second = try HTTPSessionManager(copying: copy)
    #expect(second.decoder !== copy.decoder && second.decoder.allowsJSON5)
    copy.decoder.allowsJSON5 = false
    #expect(own.allowsJSON5 && second.decoder.allowsJSON5)
    let given = JSONDecoder()
    manager.decoder = given
    #expect(try HTTPSessionManager(copying: manager).decoder === given)
  }

  /// A `Progress` moves where its handler reads it.
  @Test func progressMovesOnItsQueue() async throws {
    let manager = try SessionManager()
    let task = manager.dataTask(with: try Request("http://127.0.0.1:9/")) { _, _, _ in }
    let queue = DispatchQueue(label: "progress")
    queue.suspend()
    let seen = Recorder<[Int64]>()
    let progress = ByteProgress({ seen.add([$0.completedUnitCount, $0.totalUnitCount]) }, queue: queue)
    let live = progress.progress(of: task)
    progress.update(5, of: 10, for: task)
    progress.update(10, of: 10, for: task)
    #expect(live.completedUnitCount == 0 && live.totalUnitCount == -1)
    queue.resume()
    queue.sync {}
    #expect(seen.values == [[5, 10], [10, 10]])
    task.cancel()
  }

  /// Of several headers that cannot be sent each is remembered, until it is set or removed.
  @Test func everyRefusedHeaderIsRemembered() throws {
    var serializer = HTTPRequestSerializer()
    serializer.setValue("Bearer x\n", forHeader: "Authorization")
    serializer.setValue("y\n", forHeader: "X-Trace")
    serializer.setValue("y", forHeader: "X-Trace")
    #expect(throws: SerializationError.self) { try serializer.request(method: "GET", url: "http://h/") }
    try serializer.setAuthorization(bearerToken: "x")
    let request = try serializer.request(method: "GET", url: "http://h/")
    #expect(request.fields[.authorization] == "Bearer x")
  }

  private struct Event: Encodable, Sendable, CustomStringConvertible {
    var at = Date(timeIntervalSince1970: 0)
    var description: String { "event" }
  }

  /// A model with a description is a model: the encoder that was given writes it.
  @Test func describedModelsAreEncoded() throws {
    var serializer = JSONRequestSerializer()
    serializer.makeEncoder = {
      let encoder = JSONEncoder()
      encoder.dateEncodingStrategy = .iso8601
      return encoder
    }
    let request = try serializer.request(method: "POST", url: "http://h/", parameters: Event())
    guard case .bytes(let bytes) = request.body else {
      Issue.record("no body")
      return
    }
    #expect(String(decoding: bytes, as: UTF8.self) == #"{"at":"1970-01-01T00:00:00Z"}"#)
    let list = try PropertyListRequestSerializer().request(method: "POST", url: "http://h/", parameters: Event())
    #expect(list.fields[.contentType] == "application/x-plist")
  }

  /// A pin for the host of an http base would pin nothing.
  @Test func hostPinsNeedASecureBase() throws {
    let pin = "sha256/" + Data(repeating: 1, count: 32).base64EncodedString()
    let pinned = try SecurityPolicy(pinningMode: .publicKey, publicKeyPins: [pin])
    var policy = SecurityPolicy.default
    try policy.setPolicy(pinned, forHost: "api.example.com")
    let plain = try HTTPSessionManager(baseURL: "http://api.example.com/v1")
    let error = #expect(throws: SecurityPolicyError.self) { try plain.setSecurityPolicy(policy) }
    #expect(error?.reason == .insecureBaseURL)
    try HTTPSessionManager(baseURL: "https://api.example.com/v1").setSecurityPolicy(policy)
    try HTTPSessionManager(baseURL: "http://other.example.com/v1").setSecurityPolicy(policy)
  }
}

extension SettingTests {
  /// A transport of the caller's asks nobody about certificates: a policy that would never be looked at is refused, not ignored.
  @Test func pinsNeedATransportThatAsks() throws {
    var configuration = SessionConfiguration.ephemeral
    configuration.transport = try NetworkTransport()
    let manager = try SessionManager(configuration: configuration)
    let pin = "sha256/" + Data(repeating: 1, count: 32).base64EncodedString()
    let pinned = try SecurityPolicy(pinningMode: .publicKey, publicKeyPins: [pin])
    let error = #expect(throws: SecurityPolicyError.self) { try manager.setSecurityPolicy(pinned) }
    #expect(error?.reason == .transportDecidesTrust && manager.securityPolicy == .default)
    try manager.setSecurityPolicy(.default)
  }
}
