import BenchmarkSupport
import Dispatch
import Foundation
import FoundationNetworking

// The same work as Sources/GetLoop, by FoundationNetworking's URLSession with completion handlers. It drops a `Connection` field, and
// so always reuses connections; and on Linux it trusts the system's roots only, so there is no TLS to a server of one's own.

let usage = "getloop " + LoopOptions.usage
let options = LoopOptions(usage: usage)
guard let url = URL(string: options.url) else { misuse(usage) }

/// Touched on the session's queue only, which runs one operation at a time; but for the start and the end.
final class Loop: @unchecked Sendable {
  let session: URLSession
  let request: URLRequest
  let finished = DispatchSemaphore(value: 0)
  private(set) var tally = LoopTally(options)
  private var left: Int
  private var open: Int

  init(_ session: URLSession, _ request: URLRequest, _ count: Int) {
    self.session = session
    self.request = request
    left = count
    open = min(count, options.concurrency)
  }

  func run() -> LoopTally {
    guard open > 0 else { return tally }
    session.delegateQueue.addOperation { for _ in 0..<self.open { self.next() } }
    finished.wait()
    return tally
  }

  func next() {
    guard left > 0 else {
      open -= 1
      if open == 0 { finished.signal() }
      return
    }
    left -= 1
    let start = tally.start()
    let task = session.dataTask(with: request) { body, response, error in
      guard let body, !body.isEmpty, (response as? HTTPURLResponse)?.statusCode == 200 else {
        fatalError("\(String(describing: error))")
      }
      self.tally.note(count: body.count, first: body.first, since: start)
      self.next()
    }
    task.resume()
  }
}

let configuration = URLSessionConfiguration.default
configuration.urlCache = nil
configuration.httpMaximumConnectionsPerHost = options.connections
var request = URLRequest(url: url)
request.cachePolicy = .reloadIgnoringLocalCacheData
let queue = OperationQueue()
queue.maxConcurrentOperationCount = 1
let session = URLSession(configuration: configuration, delegate: nil, delegateQueue: queue)
_ = Loop(session, request, options.warmUpCount).run()
let before = Cost()
Loop(session, request, options.count).run().printJSON(options, since: before)
exit(0)
