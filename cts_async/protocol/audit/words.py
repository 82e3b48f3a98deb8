"""Words that prove nothing by themselves, and names of places that prove something: lists, and no code."""

from __future__ import annotations

from typing import Final

from cts_async.search.backends.tokens import STOP_WORDS

_FUNCTION: Final = """
    above across against along among around away back behind below beside best better beyond cannot down
    during each either else ever every everything find finding first former get gets getting give given go
    good got has however instead know last latter least less let like made make makes making many may might
    much must need needed needs neither next none nor nothing now often one ones onto others ought per
    please possible put rather really said say see seem several shall since somebody someone something
    still take take taken tell than therefore though thus together toward towards upon use used using
    various via want wanted wants way well whatever whether within without won would yes yet
"""
FUNCTION_WORDS: Final = STOP_WORDS | frozenset(_FUNCTION.split())
"""Function words of English, those of the embedded search among them; Chinese ones too."""

_GENERAL: Final = """
    about additional advice allowed amount answer applicable application apply applying area available average
    basic benefit book booking buy change charge check choice choose city common compare comparison complete
    condition contact content cost country criteria current cut date day deadline deal definition description
    detail difference different document eligibility eligible example exact explain explanation fact factor
    fee full general guide guideline happen help history hour how important include including info information
    instruction issue item kind latest law level limit link list local location main maximum meaning mean
    method minimum month name new number obtain offer office official online open opening option order
    overview page part payment people permit person place plan policy price procedure process product provide
    public purpose question range rate reason recent recommend recommendation recommended regarding region
    regulation related relevant require required requirement result review rule schedule search service set
    show similar site source specific specifically standard start state statistics status step subject
    suitable summary term the thing ticket time timetable tip today top topic total type typical update
    user value various version visit website week what when where which work year
"""
GENERAL: Final = frozenset(_GENERAL.split())
"""English words that any clearer query may bring along, stemmed or not: alone they are no constraint."""

_GENERAL_HAN: Final = """
    有哪些 是什么 怎么办 怎么样 怎么 如何 什么 哪些 哪里 哪个 多少 是否 能否 可以 需要 以及 还有 或者 关于
    对于 进行 包括 其中 之间 目前 现在 当前 最新 最近 近期 具体 详细 相关 有关 主要 一般 通常 常见 不同 各种
    办法 方法 方式 方案 步骤 流程 过程 程序 手续 办理 申请 材料 条件 要求 资格 标准 规定 规则 政策 措施 时间
    日期 期限 地点 地方 地址 位置 范围 区别 差异 对比 比较 价格 费用 收费 票价 多少钱 金额 数量 情况 信息
    内容 资料 数据 介绍 说明 解释 定义 含义 意思 类型 种类 分类 原因 因素 影响 作用 功能 特点 优势 优缺点 推荐
    建议 指南 攻略 教程 查询 搜索 预约 预订 购买 使用 选择 提供 官方 网站 问题 结果 排名 名单 列表 适合 适用
"""
GENERAL_HAN: Final = tuple(sorted(_GENERAL_HAN.split(), key=len, reverse=True))
"""Chinese words that any clearer query may bring along, the longest first."""

FUNCTION_HAN: Final = frozenset(
    "的了和是在有他她它们这那就都而及与或着也把被你您我吗呢吧啊么谁哪几对从到于之其但为以个等中上下里"
)
"""Characters of Chinese that bind words."""

_PLACES: Final = """
    africa america asia australia austria beijing belgium berlin boston brazil britain california canada
    chicago china denmark dubai england europe finland france germany greece guangzhou hangzhou india
    indonesia ireland israel italy japan kenya korea london macau malaysia mexico moscow munich netherlands
    nigeria norway paris philippines poland portugal russia scotland seoul shanghai shenzhen singapore spain
    sweden switzerland sydney taiwan texas thailand tokyo toronto turkey uk ukraine usa vietnam wales
"""
PLACES: Final = frozenset(_PLACES.split())
"""English names of places that people also write small."""

_PLACES_HAN: Final = """
    北京 上海 天津 重庆 河北 山西 辽宁 吉林 黑龙江 江苏 浙江 安徽 福建 江西 山东 河南 湖北 湖南 广东 海南 四川
    贵州 云南 陕西 甘肃 青海 台湾 内蒙古 广西 西藏 宁夏 新疆 香港 澳门 石家庄 太原 沈阳 大连 长春 哈尔滨 南京
    苏州 无锡 杭州 宁波 温州 合肥 福州 厦门 南昌 济南 青岛 郑州 洛阳 武汉 长沙 广州 深圳 珠海 佛山 东莞 南宁 桂林
    海口 三亚 成都 贵阳 昆明 拉萨 西安 兰州 西宁 银川 乌鲁木齐 中国 美国 英国 法国 德国 日本 韩国 俄罗斯 加拿大
    澳大利亚 新西兰 新加坡 马来西亚 泰国 越南 印度 意大利 西班牙 瑞士 巴西 欧洲 亚洲 非洲 北美 全国 国内 海外
"""
PLACES_HAN: Final = tuple(_PLACES_HAN.split())
"""Chinese names of provinces, large cities, countries and continents."""
