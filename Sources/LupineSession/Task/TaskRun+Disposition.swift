internal import Synchronization
internal import LupineBase

/// The delegate's word on a response whose head has arrived.
extension TaskRun {
  func askDisposition(_ response: Response, _ exchange: any TransportExchange, _ observer: TaskCallbacks) {
    guard let number = closeGate(for: exchange) else { return }
    observer.response(response) { [self] disposition in
      decide(number) {
        switch disposition {
        case .allow: take(response)
        case .cancel: cancel()
        case .becomeDownload: becomeDownload(response, observer)
        }
      }
    }
  }

  private func becomeDownload(_ response: Response, _ observer: TaskCallbacks) {
    guard let consumer = consumer as? DelegateConsumer else { return }
    let face = DownloadTask(self)
    let download = DownloadTaskConsumer()
    download.attach(observer, face)
    let first = state.withLock { $0.first } ?? request
    do throws(SessionError) {
      // Whoever says so has seen the status.
      try download.begin(DownloadPlan(currentRequest, behind: first, session: session)) { _ in nil }
    } catch {
      state.withLock { $0.following = .failure(error) }
      dropBody()
      return
    }
    resetConsumerPause()
    consumer.become(download)
    face.succeed(state.withLock { $0.face })
    state.withLock { $0.face = face }
    observer.becomes(face)
    consumer.receive(response, from: self)
  }
}
