import FoundationEssentials
import HTTPTypes
import LupineSession
import LupineTestSupport
import LupineWire
import Testing

@testable import LupineTesting

@Suite(.timeLimit(.minutes(5))) struct CannedTransportTests {
  @Test func answersByMethodAndPattern() async throws {
    let transport = CannedTransport([
      .init("GET", "https://api.example/users/*", .json(#"{"id":1}"#)),
      .init("POST", "/users", .text("made", status: 201)),
      .init("GET", "/search?q=*", inTurn: [.text("one"), .text("two")]),
    ])
    let session = try Session(over: transport)
    let (body, response) = try await session.text("https://api.example/users/7?full=1")
    #expect(body == #"{"id":1}"#)
    #expect(response.mimeType == "application/json")
    #expect(response.expectedContentLength == 8)
    let post = try Request("http://other.example/users", method: .post, body: .bytes(Array("name=x".utf8)))
    let (made, created) = try await session.data(for: post)
    #expect(created.statusCode == 201)
    #expect(Array(made) == Array("made".utf8))
    #expect(try await session.text("http://a.example/search?q=1").0 == "one")
    #expect(try await session.text("http://a.example/search?q=2").0 == "two")
    #expect(try await session.text("http://a.example/search?q=3").0 == "two")
    let seen = transport.requests
    #expect(seen.map(\.method) == ["GET", "POST", "GET", "GET", "GET"])
    #expect(seen[1].text == "name=x")
    #expect(seen[1].bodyIsComplete)
    #expect(seen[0].fields.first("host") == "api.example")
    #expect(seen[0].urlString == "https://api.example/users/7?full=1")
  }

  @Test func requestWithoutRouteIsATypedError() async throws {
    let session = try Session(over: CannedTransport([.init("GET", "/known", .text("x"))]))
    let error = try await failure { try await session.data(from: "http://a.example/unknown") }
    #expect(error.code == .noAnswer)
    #expect(
      error.underlying as? NoAnswer
        == .noRoute(method: "GET", url: "http://a.example/unknown", routes: ["GET /known"]))
    #expect(error.requestBytesSent == false)
  }

  @Test func closureSeesTheBodyOfEveryKind() async throws {
    let transport = CannedTransport([
      .init("POST", "*") { request in .text("\(request.body.count) \(request.fields.first("X-A") ?? "")") }
    ])
    let session = try Session(over: transport)
    let directory = FileManager.default.temporaryDirectory.path + "/lupine-canned-\(UUID().uuidString)"
    try Data(repeating: 1, count: 100_000).write(to: URL(filePath: directory))
    defer { try? FileManager.default.removeItem(atPath: directory) }
    let chunks = AsyncStream<[UInt8]> { continuation in
      for _ in 0..<3 { continuation.yield([UInt8](repeating: 2, count: 50_000)) }
      continuation.finish()
    }
    let bodies: [(Request.Body, String)] = [
      (.bytes([UInt8](repeating: 0, count: 70_000)), "70000 "), (.file(path: directory), "100000 "),
      (.file(path: directory, offset: 10, length: 20), "20 "), (.sequence(chunks), "150000 "), (.none, "0 "),
    ]
    for (body, answer) in bodies {
      let sent = Total()
      let request = try Request("http://a.example/", method: .post)
      if case .sequence = Kind(body) {
        let (data, _) = try await session.upload(for: request, from: chunks) { sent.set($0) }
        #expect(String(decoding: data, as: UTF8.self) == answer)
        #expect(sent.value == 150_000)
      } else {
        var request = request
        request.body = body
        let (data, response) = try await session.data(for: request)
        #expect(String(decoding: data, as: UTF8.self) == answer)
        let count = try #require(Int64(answer.dropLast()))
        #expect(response.metrics.transactions.first?.requestBodyBytes == count)
      }
    }
  }

  @Test func bodyThatFailsOrLiesFailsTheRequest() async throws {
    let transport = CannedTransport([.init(nil, "*", .text("x"))], bodyLimit: 10)
    let session = try Session(over: transport)
    func send(_ body: Request.Body) async throws -> SessionError {
      try await failure { try await session.data(for: Request("http://a.example/", method: .post, body: body)) }
    }
    #expect(try await send(.bytes([UInt8](repeating: 0, count: 11))).code == .bodyTooLarge)
    #expect(try await send(.file(path: "/nowhere/at/all")).code == .fileFailed)
    let short = Request.Body.stream(length: 9, isReplayable: true) { BodyStream([[1, 2, 3]]) }
    #expect(try await send(short).code == .requestBodyFailed)
    let long = Request.Body.stream(length: 2, isReplayable: true) { BodyStream([[1, 2, 3]]) }
    #expect(try await send(long).code == .requestBodyFailed)
    struct Broken: Error, Equatable {}
    let throwing = AsyncThrowingStream<[UInt8], any Error> { $0.finish(throwing: Broken()) }
    let broken = Request.Body.stream(length: nil, isReplayable: false) { BodyStream(throwing) }
    let error = try await send(broken)
    #expect(error.underlying as? Broken == Broken() && error.requestBytesSent)
  }

  /// As on the network, a request whose answer fails or stays out has left; whoever repeats requests goes by that.
  @Test func failuresSayWhatHadLeft() async throws {
    let transport = CannedTransport([
      .init(nil, "/silent", .silence), .init(nil, "/lost", .failure(.connectionLost, phase: .receive)),
      .init(nil, "/refused", .failure(.cannotConnect)),
    ])
    let session = try Session(over: transport)
    let rows: [(path: String, code: SessionError.Code, hasLeft: Bool)] = [
      ("silent", .timedOut, true), ("lost", .connectionLost, true), ("refused", .cannotConnect, false),
    ]
    for row in rows {
      var request = try Request("http://a.example/\(row.path)")
      // The others have their ends, however late the thread of the transport is.
      if row.path == "silent" { request.timeoutInterval = .milliseconds(20) }
      let error = try await failure { [request] in try await session.data(for: request) }
      #expect(error.code == row.code && error.requestBytesSent == row.hasLeft, "\(error)")
    }
  }

  /// A head has the framing that it has on the network: the length of a file, and that of an empty body.
  @Test func headsAnnounceWhatTheNetworkDoes() async throws {
    let path = FileManager.default.temporaryDirectory.appending(path: "lupine-\(UInt64.random(in: 0 ... .max))").path
    try Data("12345".utf8).write(to: URL(filePath: path))
    defer { try? FileManager.default.removeItem(atPath: path) }
    let session = try Session(over: CannedTransport([.init(nil, "*", .text("x"))]))
    func head(_ body: Request.Body) async throws -> String {
      let (_, response) = try await session.data(for: Request("http://a.example/", method: .post, body: body))
      return String(decoding: response.requestHead, as: UTF8.self).lowercased()
    }
    #expect(try await head(.file(path: path)).contains("content-length: 5\r\n"))
    #expect(try await head(.none).contains("content-length: 0\r\n"))
    let unknown = Request.Body.stream(length: nil, isReplayable: true) { BodyStream([[1]]) }
    #expect(try await head(unknown).contains("transfer-encoding: chunked\r\n"))
  }

  /// What was read before a body failed, or became too long, was seen.
  @Test func bodyIsSeenAsFarAsItWasRead() async throws {
    struct Broken: Error {}
    let transport = CannedTransport([.init(nil, "*", .text("x"))], bodyLimit: 10)
    let session = try Session(over: transport)
    let throwing = AsyncThrowingStream<[UInt8], any Error> { continuation in
      continuation.yield([1, 2])
      continuation.finish(throwing: Broken())
    }
    let six = [UInt8](repeating: 6, count: 6)
    let bodies: [(Request.Body, SessionError.Code, [UInt8])] = [
      (.stream(length: nil, isReplayable: false) { BodyStream(throwing) }, .requestBodyFailed, [1, 2]),
      (.stream(length: nil, isReplayable: true) { BodyStream([six, six]) }, .bodyTooLarge, six),
    ]
    for (index, (body, code, seen)) in bodies.enumerated() {
      let request = try Request("http://a.example/", method: .post, body: body)
      #expect(try await failure { try await session.data(for: request) }.code == code)
      #expect(transport.requests[index].body == seen)
      #expect(!transport.requests[index].bodyIsComplete)
    }
  }

  /// A body that ends because its exchange did is no whole one, and no closure takes it for one.
  @Test func cutBodiesAreNotAnswered() async throws {
    let calls = Total()
    weak var transport: CannedTransport?
    do {
      let canned = CannedTransport([
        .init(nil, "*") { _ in
          calls.set(1)
          return .text("x")
        }
      ])
      transport = canned
      let session = try Session(over: canned)
      let (chunks, continuation) = AsyncStream<[UInt8]>.makeStream()
      continuation.yield([1, 2, 3])
      let sent = Total()
      let upload = Task {
        try await session.upload(for: Request("http://a.example/", method: .post), from: chunks) { sent.set($0) }
      }
      #expect(await eventually { sent.value == 3 })
      upload.cancel()
      #expect(try await failure { try await upload.value }.code == .cancelled)
      #expect(await eventually { canned.requests[0].body == [1, 2, 3] })
      #expect(!canned.requests[0].bodyIsComplete)
      session.invalidateAndCancel()
    }
    // Whoever reads a body holds the transport until nothing more can be asked.
    #expect(await eventually { transport == nil })
    #expect(calls.value == 0)
  }

  @Test func interimResponsesTrailersAndRedirectsArrive() async throws {
    var last = CannedReply.text("end")
    last.trailers = ["X-Sum": "3"]
    last.informational = [(status: 103, fields: ["Link": "</a.css>"])]
    last.chunks = [Array("e".utf8), Array("nd".utf8)]
    let transport = CannedTransport([
      .init("GET", "/start", .redirect(to: "/end", status: 301)), .init("GET", "/end", last),
    ])
    let (body, response) = try await Session(over: transport).text("http://a.example/start")
    #expect(body == "end")
    #expect(response.trailers.first(named: "x-sum") == "3")
    #expect(response.informational.map(\.status) == [103])
    #expect(response.redirects.map(\.head.status) == [301])
    #expect(response.metrics.redirectCount == 1)
    #expect(response.metrics.transactions.map(\.statusCode) == [301, 200])
    #expect(response.metrics.transactions.map(\.urlString) == ["http://a.example/start", "http://a.example/end"])
    #expect(String(decoding: response.requestHead, as: UTF8.self).hasPrefix("GET /end HTTP/1.1\r\nHost: a.example\r\n"))
  }

  @Test func headAnd304HaveNoBodyAndBadRepliesAreErrors() async throws {
    let transport = CannedTransport([
      .init("HEAD", "*", .text("not sent")), .init("GET", "/304", CannedReply(status: 304, body: [1])),
      .init("GET", "/bad", CannedReply(status: 200, fields: ["X": "a\r\nY: b"])),
      .init("GET", "/100", CannedReply(status: 100)),
    ])
    let session = try Session(over: transport)
    #expect(try await session.data(for: Request("http://a.example/", method: .head)).0.isEmpty)
    #expect(try await session.data(from: "http://a.example/304").0.isEmpty)
    for path in ["/bad", "/100"] {
      #expect(try await failure { try await session.data(from: "http://a.example\(path)") }.code == .badResponse)
    }
  }

  /// Bytes are counted as they would be on the wire: heads to the end of the empty line, and no body where there is none.
  @Test(
    arguments: [(.get, 200, 3), (.head, 200, 0), (.get, 204, 0), (.get, 304, 0)] as [(HTTPRequest.Method, Int, Int64)])
  func countsAreThoseOfTheWire(_ method: HTTPRequest.Method, _ status: Int, _ bodyBytes: Int64) async throws {
    var reply = CannedReply(status: status, fields: ["X-A": "b"], body: [1, 2, 3])
    reply.reason = "Fine"
    reply.informational = [(status: 103, fields: ["Link": "</a>"])]
    let session = try Session(over: CannedTransport([.init(nil, "*", reply)]))
    let (_, response) = try await session.data(for: Request("http://a.example/", method: method))
    let metrics = try #require(response.metrics.transactions.first)
    let length = status == 200 ? "Content-Length: 3\r\n" : ""
    let heads = "HTTP/1.1 103 \r\nLink: </a>\r\n\r\nHTTP/1.1 \(status) Fine\r\nX-A: b\r\n\(length)\r\n"
    #expect(metrics.responseHeaderBytes == Int64(heads.utf8.count))
    #expect(metrics.responseBodyBytes == bodyBytes && metrics.responseDecodedBytes == bodyBytes)
  }

  /// A reply that is to be complete has the body that it announces; one to HEAD has none, and one that fails need not.
  @Test func announcedLengthsAreThoseOfBodies() async throws {
    let short = CannedReply(fields: ["Content-Length": "100"], body: Array("Hello, world!".utf8))
    var broken = short
    broken.failure = SessionError(.connectionLost, phase: .receive, message: "the connection broke")
    var whole = short
    whole.chunks.append([UInt8](repeating: 0, count: 87))
    let session = try Session(
      over: CannedTransport([.init(nil, "/short", short), .init(nil, "/broken", broken), .init(nil, "/whole", whole)]))
    #expect(try await failure { try await session.data(from: "http://a.example/short") }.code == .badResponse)
    #expect(try await session.data(for: Request("http://a.example/short", method: .head)).1.statusCode == 200)
    #expect(try await failure { try await session.data(from: "http://a.example/broken") }.code == .connectionLost)
    #expect(try await session.data(from: "http://a.example/whole").0.count == 100)
  }

  /// As from the network: the bytes are the decoded ones, and the head is that of the coded body.
  @Test func codedResponsesAreGivenDecoded() async throws {
    let body = Array(repeating: UInt8(ascii: "a"), count: 1_000)
    let announced = CannedReply(fields: ["Content-Encoding": "gzip", "Content-Length": "29"], body: body)
    let unannounced = CannedReply(fields: ["Content-Encoding": "gzip"], body: body)
    let session = try Session(
      over: CannedTransport([.init(nil, "/announced", announced), .init(nil, "/unannounced", unannounced)]))
    for (path, length) in [("/announced", 29), ("/unannounced", nil)] as [(String, Int64?)] {
      let (data, response) = try await session.data(from: "http://a.example\(path)")
      #expect(Array(data) == body)
      #expect(response.expectedContentLength == length)
      #expect(response.head.fields.values(named: "content-encoding") == ["gzip"])
    }
  }

  @Test func readerThatIsBehindHoldsTheTransport() async throws {
    var reply = CannedReply()
    reply.chunks = (0..<200).map { [UInt8](repeating: UInt8($0), count: 64 * 1024) }
    let size = 200 * 64 * 1024
    let transport = ObservingTransport(CannedTransport([.init(nil, "*", reply)]))
    let session = try Session(over: transport)
    let (bytes, response) = try await session.bytes(for: Request("http://a.example/"))
    #expect(response.statusCode == 200)
    var chunks = bytes.chunks.makeAsyncIterator()
    var count = 0
    while let chunk = try await chunks.next() {
      #expect(chunk.first == UInt8(count / 65_536))
      // While nobody reads on, the rest stays where it is.
      if count == 0 {
        let isAllGiven = await eventually(seconds: 2) { transport.givenBytes == size }
        #expect(!isAllGiven)
      }
      count += chunk.count
    }
    #expect(count == size && transport.givenBytes == size)
  }

  @Test func manualClockDecidesDelaysAndDeadlines() async throws {
    let clock = ManualClock()
    var slow = CannedReply.text("late")
    slow.delay = .seconds(30)
    let transport = CannedTransport([.init(nil, "/slow", slow), .init(nil, "*", .silence)], clock: .manual(clock))
    let session = try Session(over: transport)
    var patient = try Request("http://a.example/slow")
    patient.timeoutInterval = .seconds(1_000_000_000)
    let late = Task { [patient] in
      let (body, response) = try await session.data(for: patient)
      return (String(decoding: body, as: UTF8.self), response)
    }
    #expect(await eventually { transport.requests.count == 1 })
    // The delay may not have begun when the clock is moved: it is moved again and again.
    let (text, response) = try await withPump(clock, .seconds(10)) { try await late.value }
    #expect(text == "late")
    let metrics = try #require(response.metrics.transactions.first)
    let send = try #require(metrics.phases.first { $0.name == "send" })
    let firstByte = try #require(metrics.phases.first { $0.name == "firstByte" })
    // Together: the clock may be moved before the thread comes to the end of the request, and the delay counts from its beginning.
    #expect(Duration.nanoseconds(firstByte.end - send.start) >= slow.delay)
    var request = try Request("http://a.example/never")
    request.totalTimeout = .seconds(5)
    let started = ContinuousClock.now
    let error = try await withPump(clock, .seconds(5)) { [request] in
      try await failure { try await session.data(for: request) }
    }
    #expect(error.code == .timedOut)
    #expect(error.phase == .total)
    request.totalTimeout = nil
    let idle = try await withPump(clock, .seconds(10)) { [request] in
      try await failure { try await session.data(for: request) }
    }
    #expect(idle.code == .timedOut)
    #expect(idle.phase == .firstByte)
    // Both limits together are 65 seconds, of which nobody has waited.
    #expect(ContinuousClock.now - started < .seconds(55))
  }

  /// However far a clock is moved at once, what came before a deadline comes before it, and what would have come behind it does not come.
  @Test(
    arguments: [
      (30, [0], nil, true), (0, [25, 25, 25], nil, true), (61, [0], nil, false), (0, [25, 25, 25], 60, false),
      (10, [5, 5], 30, true),
    ] as [(Int, [Int], Int?, Bool)]) func oneStepOfAClockKeepsTheOrder(
      _ delay: Int, _ pieces: [Int], _ total: Int?, _ isAnswered: Bool
    ) async throws
  {
    let clock = ManualClock()
    var reply = CannedReply()
    reply.chunks = pieces.map { _ in [1] }
    reply.delay = .seconds(delay)
    reply.chunkDelay = .seconds(pieces[0])
    let transport = CountingTransport(CannedTransport([.init(nil, "*", reply)], clock: .manual(clock)))
    let session = try Session(over: transport)
    var request = try Request("http://a.example/")
    request.timeoutInterval = .seconds(60)
    request.totalTimeout = total.map { .seconds($0) }
    let answer = Task { [request] in try await session.data(for: request).0.count }
    #expect(await eventually { transport.count == 1 })
    clock.advance(by: .seconds(90))
    if isAnswered {
      #expect(try await answer.value == pieces.count)
    } else {
      let error = try await failure { try await answer.value }
      #expect(error.code == .timedOut)
      #expect(error.partialBody?.count ?? 0 == (delay == 0 ? 2 : 0))
    }
  }

  /// What has neither a response nor a failure does not end by itself, and what stalls ends as far as it came.
  @Test func withoutAnEndADeadlinePasses() async throws {
    var none = CannedReply()
    none.hasResponse = false
    var half = CannedReply(body: [1, 2])
    half.stalls = true
    for (reply, partialBody) in [(none, []), (half, [1, 2])] as [(CannedReply, [UInt8])] {
      let clock = ManualClock()
      let measured = ObservingTransport(CannedTransport([.init(nil, "*", reply)], clock: .manual(clock)))
      let transport = CountingTransport(measured)
      let session = try Session(over: transport)
      var request = try Request("http://a.example/")
      request.timeoutInterval = .seconds(60)
      let answer = Task { [request] in try await session.data(for: request) }
      // What is told later than the clock is moved would put the deadline off.
      #expect(await eventually { transport.count == 1 && measured.givenBytes == partialBody.count })
      clock.advance(by: .seconds(90))
      let error = try await failure { try await answer.value }
      #expect(error.code == .timedOut)
      #expect(error.partialBody ?? [] == partialBody)
    }
  }

  @Test func cancellingEndsAtOnceAndOnce() async throws {
    let session = try Session(over: CannedTransport([.init(nil, "*", .silence)]))
    let task = Task { try await session.data(from: "http://a.example/") }
    task.cancel()
    let error = try await failure { try await task.value }
    #expect(error.code == .cancelled)
  }

  @Test func hundredsAtOnceEachGetTheirOwn() async throws {
    let transport = CannedTransport([
      .init("POST", "*") { request in CannedReply(body: request.body) },
      .init("GET", "*") { request in .text(request.target) },
    ])
    let session = try Session(over: transport)
    try await withThrowingTaskGroup(of: Bool.self) { group in
      for number in 0..<500 {
        group.addTask {
          if number.isMultiple(of: 2) {
            return try await session.text("http://a.example/\(number)").0 == "/\(number)"
          }
          let bytes = [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: number * 100)
          let request = try Request("http://a.example/", method: .post, body: .bytes(bytes))
          return try await Array(session.data(for: request).0) == bytes
        }
      }
      for try await isRight in group { #expect(isRight) }
    }
    #expect(transport.requests.count == 500)
  }

  @Test(arguments: [
    ("a*c", "abbbc", true), ("a*c", "abbbcd", false), ("*", "", true), ("", "", true), ("", "a", false),
    ("**b**", "aaabaaa", true), ("a*b*c", "a-b-b-c", true), ("a*b*c", "a-c-b", false), ("abc", "abc", true),
    ("*a*a*a*a*b", String(repeating: "a", count: 2_000), false),
  ]) func patterns(_ pattern: String, _ text: String, _ matches: Bool) {
    #expect(URLPattern.matches(Array(text.utf8), Array(pattern.utf8)) == matches)
  }

  private enum Kind {
    case sequence, other

    init(_ body: Request.Body) {
      if case .stream = body { self = .sequence } else { self = .other }
    }
  }
}

/// A number that is told again and again.
final class Total: Sendable {
  private let monitor = Monitor<Int64>(0)

  var value: Int64 { monitor.withLock { $0 } }

  func set(_ value: Int64) { monitor.withLock { $0 = value } }

  func add(_ value: Int64) { monitor.withLock { $0 += value } }
}
