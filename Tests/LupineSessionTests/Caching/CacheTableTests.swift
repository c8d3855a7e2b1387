import FoundationEssentials
import HTTPTypes
import LupineBase
import LupineRules
import LupineSession
import LupineTestSupport
import LupineTesting
import LupineWire
import Testing

/// `Cases/rfc9111.md` over real connections.
@Suite struct CacheTableTests {
  @Test func inMemory() async throws {
    let clock = Locked(CacheCase.beginning)
    try await run(ResponseCache(memoryCapacity: 32 << 20) { clock.withLock { $0 } }, clock) { _ in }
  }

  /// The memory is emptied before each request, so that all that is found is found in files: by whoever asks, or by threads of their own.
  @Test(arguments: [true, false]) func inFiles(_ readsAtOnce: Bool) async throws {
    let directory = try ScratchDirectory()
    let clock = Locked(CacheCase.beginning)
    let cache = try ResponseCache(
      32 << 20, 32 << 20, 1 << 20, directory.path + "/cache", readsAtOnce: readsAtOnce
    ) { clock.withLock { $0 } }
    try await run(cache, clock, isInFiles: true) { cache in
      await cache.flush()
      cache.forgetMemory()
    }
    try CacheFolder.remove(directory.path + "/cache")
  }

  private func run(
    _ cache: ResponseCache, _ clock: Locked<Int64>, isInFiles: Bool = false,
    _ before: (ResponseCache) async -> Void
  ) async throws {
    let cases = try CacheCase.all()
    #expect(cases.count >= 150)
    let origin = try CacheOrigin()
    defer { origin.server.shutdown() }
    try await withSession(
      ports: [origin.server.port],
      configure: {
        $0.tls = TLSConfiguration()
        $0.responseCache = cache
      },
      { session in
        for (number, test) in cases.enumerated() where !isInFiles || !test.isMemoryOnly {
          var runner = CacheCaseRunner(test, number, origin, session, cache)
          for step in test.steps {
            clock.withLock { $0 = CacheCase.beginning + step.seconds }
            await before(cache)
            try await runner.play(step)
          }
        }
      })
  }
}

/// Plays the steps of one case, and compares.
struct CacheCaseRunner {
  private let test: CacheCase
  private let number: Int
  private let origin: CacheOrigin
  private let session: Session
  private let cache: ResponseCache
  private var line = 0
  /// The line that was loaded last, and the status of each line's answer.
  private var latest = 0
  private var statuses: [Int: Int] = [:]

  init(_ test: CacheCase, _ number: Int, _ origin: CacheOrigin, _ session: Session, _ cache: ResponseCache) {
    self.test = test
    self.number = number
    self.origin = origin
    self.session = session
    self.cache = cache
  }

  mutating func play(_ step: CacheCase.Step) async throws {
    line += 1
    statuses[line] = Int(step.answer.status) ?? 200
    origin.prepare(step.answer, body: "b\(line)")
    let place: Comment = "\(test.name), line \(line)"
    let method = try #require(HTTPRequest.Method(step.method))
    var request = try Request(origin.server.url("/case\(number)\(step.path)"), method: method)
    request.cachePolicy = step.policy
    for (name, value) in step.fields {
      request.fields.append(HTTPField(name: try #require(HTTPField.Name(name)), value: value))
    }
    if step.outcome == "none" {
      let error = await #expect(throws: SessionError.self, place) { try await session.data(for: request) }
      #expect(error?.code == .notInCache, place)
      return #expect(origin.asked.isEmpty, place)
    }
    let (data, response): (Data, Response)
    do {
      (data, response) = try await session.data(for: request)
    } catch {
      Issue.record("\(test.name), line \(line): \(error)")
      return
    }
    let body = String(decoding: data, as: UTF8.self)
    let (source, asks) = judge(step)
    let status = statuses[source] ?? 200
    let isEmpty = [204, 304].contains(status) || step.method == "HEAD" || step.outcome == "504"
    #expect(body == (isEmpty ? "" : "b\(source)"), place)
    if !step.checks.contains(where: { $0.hasPrefix("status=") }) {
      #expect(response.statusCode == (step.outcome == "504" ? 504 : step.outcome == "again" ? 200 : status), place)
    }
    if step.outcome == "behind" {
      let plain = request
      let isRefreshed = await eventually {
        await cache.cachedResponse(for: plain)?.response.head.fields.first(named: "age") == "0"
      }
      #expect(isRefreshed, place)
    }
    try check(step, response, place)
    #expect(origin.asked.map(\.isConditional) == asks || step.outcome == "stale" || step.outcome == "behind", place)
    if step.outcome == "again" {
      #expect(response.metrics.transactions.map(\.statusCode) == [304, 200], place)
      #expect(response.metrics.transactions.map(\.fetchType) == [.networkLoad, .networkLoad], place)
    }
    let fetchType = response.metrics.transactions.last?.fetchType
    let isStored = ["stored", "stored-head", "behind", "stale", "504"].contains(step.outcome)
    let isValidated = step.outcome == "ask" && response.statusCode != 304 && source != line
    #expect(fetchType == (isStored ? .localCache : isValidated ? .validatedCache : .networkLoad), place)
  }

  /// Whose body it is, and which requests the server gets: whether they are conditional.
  private mutating func judge(_ step: CacheCase.Step) -> (source: Int, asks: [Bool]) {
    switch step.outcome {
    case "load", "load-head":
      if step.method == "GET" { latest = line }
      return (line, [false])
    case "ask-own": return (line, [true])
    case "again":
      latest = line
      statuses[line] = 200
      return (line, [true, false])
    case "ask":
      if step.source == line || step.answer.status != "304" { latest = step.source ?? line }
      return (step.source ?? latest, [true])
    case "stored", "stored-head": return (step.source ?? latest, [])
    case "behind", "stale": return (step.source ?? latest, [])
    default: return (line, [])
    }
  }

  private func check(_ step: CacheCase.Step, _ response: Response, _ place: Comment) throws {
    let fields = response.head.fields
    if ["stored", "stored-head", "behind"].contains(step.outcome) {
      #expect(fields.values(named: "age").count == 1, place)
    }
    if step.outcome == "stale" { #expect(!origin.asked.isEmpty, place) }
    for check in step.checks {
      if check.hasPrefix("age=") {
        #expect(fields.values(named: "age") == [String(check.dropFirst(4))], place)
      } else if check.hasPrefix("status=") {
        #expect("\(response.statusCode)" == check.dropFirst(7), place)
      } else if check.hasPrefix("!") {
        #expect(fields.first(named: String(check.dropFirst())) == nil, place)
      } else if check.hasPrefix("asked ") || check.hasPrefix("If-") {
        let text = check.hasPrefix("asked ") ? String(check.dropFirst(6)) : check
        let field = try CacheCase.field(text)
        #expect(origin.asked.last?.fields.first(field.name) == field.value, place)
      } else {
        let field = try CacheCase.field(check)
        #expect(fields.values(named: field.name) == [field.value], place)
      }
    }
  }
}
