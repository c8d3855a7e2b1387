import LupineBase
import LupineEngine
import LupineIO
import LupineSimulation
import LupineWire
import Testing

@Suite(.timeLimit(.minutes(1))) struct DrivenEngineTests {
  @Test func aDrivenEngineServesRequestsByItsOwnClock() throws {
    let drive = try Drive()
    drive.start(try request(host: "h", port: 80, target: "/1"))
    drive.settle()
    #expect(drive.received(0).hasPrefix("GET /1 HTTP/1.1\r\n"))
    drive.send(0, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
    drive.settle()
    #expect(drive.outcomes.first?.body == Array("hello".utf8))

    // The second waits for an answer, and a minute passes at once.
    drive.start(try request(host: "h", port: 80, target: "/2"))
    drive.settle()
    #expect(drive.received(0).hasPrefix("GET /2"))
    let deadline = try #require(drive.engine.context.nextDeadline)
    drive.engine.world.now = max(deadline, drive.engine.world.now.advanced(byNanoseconds: 60_000_000_000))
    drive.settle()
    let error = try #require(drive.outcomes.last?.failure?.error)
    guard case .deadline(.firstByte) = error else {
      Issue.record("\(error)")
      return
    }
    drive.end()
  }

  /// What a server says before it is asked would be taken for the answer to the first request. Its end may be there with
  /// that: nil, of its sending alone, or of all.
  @Test(arguments: [nil, false, true] as [Bool?])
  func bytesBeforeTheFirstRequestFailTheConnection(_ isClosed: Bool?) throws {
    let drive = try Drive()
    drive.isDecided = false
    drive.start(try request(host: "h", port: 80))
    drive.settle()
    drive.send(0, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nEVIL!")
    if isClosed != nil { drive.servers[0].halfClose() }
    drive.servers[0].accept()
    if isClosed == true { drive.servers[0].close() }
    drive.settle()
    if isClosed != true { #expect(drive.received(0) == "") }
    let error = try #require(drive.outcomes.first?.failure?.error)
    guard case .unsolicitedBytes = error else {
      Issue.record("\(error)")
      return
    }
    drive.end()
  }

  /// A time that is over before it begins is not waited for, however quick the answer would be: nobody is asked.
  @Test(arguments: [0, .min] as [Int64]) func aTimeThatIsOverIsOver(_ total: Int64) throws {
    let drive = try Drive()
    drive.start(try request(host: "h", port: 80, total: total))
    drive.settle()
    guard case .deadline(.total)? = drive.outcomes.first?.failure?.error else {
      Issue.record("\(drive.outcomes)")
      return
    }
    #expect(drive.servers.isEmpty)
    drive.end()
  }

  /// A request that starts from within the end of another, while word of what an idle connection received is still to be told, does not take that connection. It waits behind
  /// as many events as are told before what they ended is told.
  @Test func aConnectionWhoseEventsAreStillToBeToldIsLookedAt() throws {
    let busy = 8
    let last = try request(host: "h", port: 80, target: "/last")
    var configuration = PoolConfiguration()
    configuration.limits.perHost = busy + 2
    let drive = try Drive(configuration)
    for index in 0..<busy {
      drive.start(try request(host: "h", port: 80, target: "/\(index)")) { if index == 0 { drive.start(last) } }
    }
    drive.start(try request(host: "h", port: 80, target: "/idle"))
    drive.settle()
    #expect(drive.servers.count == busy + 1)
    for server in 0...busy { _ = drive.received(server) }
    drive.send(busy, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    drive.settle()
    // In this order, so that the end of the first is told before what the idle one received.
    for server in 0..<busy { drive.send(server, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n") }
    drive.send(busy, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nEVIL!")
    drive.settle()
    #expect(drive.received(busy) == "")
    #expect(drive.servers.count == busy + 2)
    #expect(drive.received(busy + 1).hasPrefix("GET /last"))
    drive.send(busy + 1, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood")
    drive.settle()
    #expect(drive.outcomes.last?.body == Array("good".utf8))
    drive.end()
  }

  /// A file thread puts the last of a body into the socket, and the server has answered before the loop hears of it: the body was sent all the
  /// same, and the connection serves on.
  @Test func anAnswerThatOvertakesWordOfTheFileThatWasSentWaitsForIt() throws {
    let drive = try Drive()
    let count = 1000
    let file = RequestBody.file(FileBody(path: "/proc/self/exe", length: Int64(count)))
    let put = try request(host: "h", port: 80, method: "PUT", framing: .length(Int64(count)), body: file)
    for number in 1...20 {
      drive.start(put)
      var received = 0
      while received < put.head.count + count {
        _ = drive.engine.context.turn()
        // Long beside a turn, so that the body comes in here, where nobody asks what the file thread has reported.
        for _ in 0..<1000 where received < put.head.count + count {
          received += drive.receive(drive.servers.count - 1).count
        }
      }
      drive.send(drive.servers.count - 1, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
      while drive.outcomes.count < number { drive.settle() }
      #expect(drive.outcomes.last?.sent == count)
    }
    #expect(drive.servers.count == 1)
    drive.end()
  }

  /// The file ends too early, and the server has refused the body meanwhile: what it says counts.
  @Test func anAnswerCountsMoreThanTheFileThatFailed() throws {
    let count = 100_000_000
    let file = RequestBody.file(FileBody(path: "/etc/passwd", length: Int64(count)))
    let put = try request(host: "h", port: 80, method: "PUT", framing: .length(Int64(count)), body: file)
    var isTested = false
    // The file thread may be so quick that the engine has heard of the end before there is an answer: on a busy machine a thousand times.
    let deadline = ContinuousClock.now + .seconds(40)
    while !isTested, ContinuousClock.now < deadline {
      let drive = try Drive()
      drive.start(put)
      var received = 0
      while received <= put.head.count, drive.outcomes.isEmpty {
        _ = drive.engine.context.turn()
        for _ in 0..<1000 where received <= put.head.count { received += drive.receive(drive.servers.count - 1).count }
      }
      if drive.outcomes.isEmpty {
        isTested = true
        drive.send(0, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n")
        while drive.outcomes.isEmpty { drive.settle() }
        #expect(drive.outcomes.first?.status == 413)
        #expect(drive.outcomes.first?.failure == nil)
      }
      drive.end()
    }
    #expect(isTested)
  }
}
