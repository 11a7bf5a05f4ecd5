"""Words that ask or connect and name nothing: what a query loses before it is looked up. Data only.

English words are listed whole. Chinese, Japanese and Korean are searched by pairs of characters, so their lists are
phrases whose pairs are left out.
"""

from __future__ import annotations

ENGLISH = frozenset(
    """
    a about after all also am an and any are as at be because been before being between both but by can could did do
    does doing down during each few for from further had has have having he her here hers him his how i if in into is
    it its just me more most my no nor not now of off on once only or other our out over own same she should so some
    such than that the their them then there these they this those through to too under until up very was we were what
    when where which while who whom why will with would you your
    """.split()  # noqa: SIM905 - a list of a hundred quoted words is no table to read
)

_JAPANESE = """
です ですか ます ますか ました ましたか でした でしたか でしょうか ません ください てください 教えてください
している していました しています されて された される されています する した して します しますか どのように
どのような どのくらい どれくらい どれですか どれが どうして どうすれば どうなりますか どうやって いつから いつまで
いつですか どこに どこで どこから どこですか だれが なぜ いくつ いくらですか とは という といい について における
によって による として から まで より など だけ ため こと もの とき それ その この あの また または あります
ありますか あった いる います いますか いう なる なります なりますか なった ない できる できます できますか できた
ればよいですか いいですか のは のが のを のに ので では には からは までに はどこ はどの はどう はいつ はいく
はだれ はなに がある のです のですか たのは たのです るのは るのです れました れますか られて られます りますか
るには ていた たい たいです
"""
_KOREAN = """
나요 인가요 가요 까요 을까요 습니까 습니다 입니까 입니다 합니까 합니다 됩니까 됩니다 하나요 되나요 있나요 없나요
있습니까 어떻게 어떤 무엇 무엇인가요 무엇을 언제 언제부터 언제까지 어디 어디서 어디로 어디에 누구 누가 얼마나 얼마인가요
해야 하려면 으려면 되려면 인지 는지 있는 없는 하는 되는 에서는 에게 까지 부터 으로 에는 에서 그리고 또는 알려
주세요 알려주세요 대해 대한
"""
_CHINESE = (
    "什么 怎么 怎样 如何 为什么 為什麼 哪些 哪个 哪裡 哪里 多少 是否 请问 請問 是什么 怎么样 有没有 可以吗 是不是"
)


def _pairs(phrases: str) -> set[str]:
    return {phrase[at : at + 2] for phrase in phrases.split() for at in range(len(phrase) - 1)}


PAIRS = frozenset(_pairs(_JAPANESE) | _pairs(_KOREAN) | _pairs(_CHINESE))
